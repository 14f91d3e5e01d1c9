"""Parquet files and data frames, as chunks of Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.data.dataset import DataError
from pacbayes.data.sizes import check_memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Opened", "as_arrow", "check_type", "open_frame", "open_parquet"]

_ROWS = 1 << 14  # of one chunk


@dataclass(frozen=True)
class Opened:
    """A table that was opened but not read.

    Attributes:
        where: the file, for messages.
        names: all columns; positions if there is no header.
        most: upper bound on the number of rows.
        chunks: the columns of some rows at a time.
        first: number of the first row, for messages.
        headless: a CSV file without a header.
    """

    where: str
    names: tuple[str, ...]
    most: int
    chunks: Iterable[list[pa.Array]]
    first: int = 1
    headless: bool = False


def open_parquet(path: Path) -> Opened:
    """Open a Parquet file; its size is checked before it is read."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
        texts = [field.name for field in schema if _is_text(field.type)]
        # Texts stay in dictionaries, so that a long one that is repeated takes no memory.
        file = parquet.ParquetFile(path, read_dictionary=texts)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error})") from error
    check_memory(4 * file.metadata.num_rows * len(schema), f"{path}: its examples")
    chunks = _guarded(str(path), file.iter_batches(_ROWS))
    return Opened(str(path), tuple(schema.names), file.metadata.num_rows, chunks)


def open_frame(frame: Any) -> Opened:
    """Open a data frame of pandas, polars or any library that exports Arrow."""
    import pyarrow as pa

    where = "the data frame"
    try:
        table = as_arrow(frame)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"{where}: not a table of plain columns ({error})") from error
    names = tuple(str(name) for name in table.schema.names)
    return Opened(where, names, len(table), _guarded(where, table.to_batches(_ROWS)))


def as_arrow(frame: Any) -> pa.Table:
    """Return a data frame of any library as an Arrow table."""
    import pyarrow as pa

    if hasattr(frame, "reset_index"):  # pandas would export its index as a column
        frame = frame.reset_index(drop=True)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(frame).read_all()
    if hasattr(frame, "__dataframe__"):
        from pyarrow import interchange

        return interchange.from_dataframe(frame)
    raise DataError(
        f"need a path or a data frame (pandas, polars), got {type(frame).__name__}; "
        "save arrays as .npz"
    )


def _guarded(where: str, batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.Array]]:
    import pyarrow as pa

    try:
        for batch in batches:
            yield [_plain(column) for column in batch.columns]
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{where}: a damaged table ({error})") from error


def _plain(column: pa.Array) -> pa.Array:
    """Return texts in the common type, in which Arrow knows most operations."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        return column.cast(pa.dictionary(kind.index_type, pa.string()))
    return column.cast(pa.string()) if _is_text(kind) else column


def _usable() -> tuple[Callable[[pa.DataType], bool], ...]:
    from pyarrow import types

    plain = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return (*plain, types.is_null, _is_text)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.string(), pa.large_string(), pa.string_view())


def check_type(where: str, name: str, kind: pa.DataType) -> None:
    """Raise DataError if a column has neither numbers nor truth values nor texts."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    out = f"leave it out with --drop {name}"
    if types.is_temporal(kind):
        raise DataError(
            f"{where}: column {name!r} has dates or times ({kind}); turn them into numbers, such "
            f"as days since a fixed day, or {out}"
        )
    if not any(test(kind) for test in _usable()):
        raise DataError(
            f"{where}: column {name!r} has values of type {kind}; give numbers or texts, or {out}"
        )
