"""Tables as chunks of Arrow columns: CSV and Parquet files, and data frames.

What is not text, too long or damaged is refused before anything is built.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from pacbayes.data.arrays import check_memory
from pacbayes.data.dataset import DataError
from pacbayes.data.frame import Kind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Opened",
    "TextFile",
    "as_arrow",
    "check_type",
    "open_frame",
    "open_parquet",
    "open_text",
]

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


def check_type(where: str, name: str, kind: pa.DataType, known: Kind | None = None) -> None:
    """Raise DataError if a column has no numbers, dates, truth values or texts.

    Args:
        known: its kind in the training set.
    """
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    out = f"leave it out with --drop {name}"
    if types.is_temporal(kind) and known in (None, Kind.DATE):
        return
    if types.is_temporal(kind):
        raise DataError(
            f"{where}: column {name!r} has dates or times ({kind}); turn them into numbers, such "
            f"as days since a fixed day, or {out}"
        )
    if not any(test(kind) for test in _usable()):
        raise DataError(
            f"{where}: column {name!r} has values of type {kind}; give numbers or texts, or {out}"
        )


SEPARATORS = (",", ";", "\t")
_BLOCK = 1 << 19
_PER_COLUMN, _LARGEST_BLOCK = 1 << 14, 1 << 26
_LONGEST = 1 << 28  # of a line: ten million numbers
_LOOKED_AT = 20  # rows from which the separator is found
_UNREADABLE = (csv.Error, EOFError, OSError, UnicodeDecodeError, zlib.error)


@dataclass(frozen=True)
class TextFile:
    """A CSV file that was looked through once.

    Attributes:
        first: cells of the first row.
        most: upper bound on the number of rows.
        longest: upper bound on the length of a line, in bytes.
        quoted: there are quotation marks, so a line break may be part of a cell.
    """

    path: Path
    separator: str
    first: tuple[str, ...]
    most: int
    longest: int
    quoted: bool

    def chunks(self, header: bool) -> Iterator[list[pa.Array]]:
        """Return the columns, as texts, of some rows at a time; the header is left out."""
        import pyarrow as pa

        done, ragged = 0, list[tuple[int, int]]()
        try:
            with _open(self.path) as file:
                for batch in self._batches(file, ragged):
                    skip = int(header and not done and len(batch) > 0)
                    done += len(batch)
                    if len(batch) > skip:
                        yield [column[skip:] for column in batch.columns]
        except (*_UNREADABLE, pa.ArrowInvalid) as error:
            raise self._ragged(*ragged[0]) if ragged else _unreadable(self.path, error) from error

    def _ragged(self, row: int, columns: int) -> DataError:
        return DataError(
            f"{self.path}, row {row}: {columns} columns, expected {len(self.first)} as in the "
            "first row"
        )

    def _batches(self, file: BinaryIO, ragged: list[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        before = 0

        def note(row: arrow_csv.InvalidRow) -> str:
            ragged.append((before + row.number, row.actual_columns))
            return "error"

        names = [str(i) for i in range(len(self.first))]
        parse = arrow_csv.ParseOptions(
            delimiter=self.separator, newlines_in_values=self.quoted, invalid_row_handler=note
        )
        texts = arrow_csv.ConvertOptions(  # the survey found UTF-8
            check_utf8=False, column_types=dict.fromkeys(names, pa.string())
        )
        for source, size in self._pieces(file):
            read = arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=size)
            rows = 0
            for batch in arrow_csv.open_csv(source, read, parse, texts):
                yield batch
                rows += len(batch)
            before += rows

    def _pieces(self, file: BinaryIO) -> Iterator[tuple[Any, int]]:
        """Return readable pieces of whole lines, and their size; one if lines may be quoted.

        Pieces have about a thousand rows: shorter ones take more time, and longer ones memory.
        """
        size = min(max(2 * _BLOCK, _PER_COLUMN * len(self.first)), _LARGEST_BLOCK)
        if self.quoted:
            yield file, max(size, self.longest)
            return
        rest = b""
        while block := file.read(size):
            end = (block.rfind(b"\n") + 1) or (block.rfind(b"\r") + 1)
            if piece := (rest + block[:end]).strip(b"\r\n") if end else b"":
                yield io.BytesIO(piece), len(piece) + 1
            rest = block[end:] if end else rest + block
        if rest.strip(b"\r\n"):
            yield io.BytesIO(rest), len(rest) + 1


def open_text(path: Path) -> TextFile:
    """Look through a CSV file: find the separator, and refuse what is not text or too long.

    Raises:
        DataError: the file is empty, is not UTF-8 text, or would not fit in memory.
    """
    try:
        with _open(path) as file:
            most, longest, quoted = _survey(path, file)
        separator, first = _dialect(path)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    check_memory(4 * most * len(first), f"{path}: its examples")
    return TextFile(path, separator, first, most, longest, quoted)


def _unreadable(path: Path, error: Exception) -> DataError:
    remedy = "; save it as UTF-8 text" if isinstance(error, UnicodeDecodeError) else ""
    return DataError(f"{path}: not a readable CSV file ({error}){remedy}")


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _survey(path: Path, file: BinaryIO) -> tuple[int, int, bool]:
    """Return upper bounds on the rows and on the length of a line, and whether any is quoted."""
    rows, unbroken, most_unbroken = 1, 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    plain, quoted = True, False
    while block := file.read(_BLOCK):
        _check_text(path, block)
        plain = plain and block.isascii()
        if not plain:
            decoder.decode(block)
        quoted = quoted or b'"' in block
        ends = _line_ends(block)
        rows, unbroken = rows + ends, 0 if ends else unbroken + 1
        most_unbroken = max(unbroken, most_unbroken)
        check_memory(4 * rows, f"{path}: its examples")
        if most_unbroken * _BLOCK > _LONGEST:
            raise DataError(f"{path}: not a readable CSV file (a line of {_LONGEST >> 20} MiB)")
    decoder.decode(b"", final=True)
    return rows, (most_unbroken + 2) * _BLOCK, quoted


def _line_ends(block: bytes) -> int:
    """Return an upper bound on the number of line ends: LF, CR or both."""
    ends = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
    if b"\r" in block:
        ends += block.count(b"\r") - block.count(b"\r\n")
    return ends


def _check_text(path: Path, block: bytes) -> None:
    if b"\0" in block:
        raise DataError(
            f"{path}: not a readable CSV file (it has NUL bytes, as UTF-16 or a binary file has); "
            "save it as UTF-8 text"
        )


def _dialect(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the separator and the first row.

    The separator gives every row the same number of cells, and at least two; if several do, the
    one of most cells is taken.
    """
    rows = {separator: _first_rows(path, separator) for separator in SEPARATORS}
    if not any(rows.values()):
        raise DataError(f"{path}: no examples; the file is empty")

    def fit(separator: str) -> tuple[bool, int]:
        widths = {len(row) for row in rows[separator]}
        return len(widths) == 1, len(rows[separator][0])

    usable = [separator for separator in SEPARATORS if len(rows[separator][0]) > 1]
    best = max(usable, key=fit, default=",")
    return best, tuple(cell.strip() for cell in rows[best][0])


def _first_rows(path: Path, separator: str) -> list[list[str]]:
    """Return some rows, or one empty cell if this separator makes cells too long to be any."""
    with _open(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = (row for row in csv.reader(text, delimiter=separator) if row)
        try:
            return list(itertools.islice(rows, _LOOKED_AT))
        except csv.Error:
            return [[""]]
