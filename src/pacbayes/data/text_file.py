"""CSV files as chunks of cells: separators, compression and everything that is not text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from pacbayes.data.dataset import DataError
from pacbayes.data.sizes import check_memory

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TextFile", "open_text"]

SEPARATORS = (",", ";", "\t")
_BLOCK = 1 << 19
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
    """

    path: Path
    separator: str
    first: tuple[str, ...]
    most: int
    longest: int

    def chunks(self, header: bool) -> Iterator[list[pa.Array]]:
        """Return the columns, as texts, of some rows at a time; the header is left out."""
        import pyarrow as pa

        skip, ragged = int(header), list[str]()
        try:
            with _open(self.path) as file:
                for batch in self._batches(file, ragged):
                    if len(batch) > skip:
                        yield [column[skip:] for column in batch.columns]
                    skip = max(0, skip - len(batch))
        except (*_UNREADABLE, pa.ArrowInvalid) as error:
            raise (DataError(ragged[0]) if ragged else _unreadable(self.path, error)) from error

    def rows(self, header: bool) -> Iterator[list[str]]:
        """Return the cells of one row after the other, which is slow; the header is left out."""
        try:
            with _open(self.path) as file:
                text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
                rows = (row for row in csv.reader(text, delimiter=self.separator) if row)
                yield from itertools.islice(rows, int(header), None)
        except _UNREADABLE as error:
            raise _unreadable(self.path, error) from error

    def _batches(self, file: BinaryIO, ragged: list[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        def note(row: arrow_csv.InvalidRow) -> str:
            ragged.append(
                f"{self.path}, row {row.number}: {row.actual_columns} columns, "
                f"expected {row.expected_columns} as in the first row"
            )
            return "error"

        names = [str(i) for i in range(len(self.first))]
        return arrow_csv.open_csv(
            file,
            arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=self.longest),
            arrow_csv.ParseOptions(
                delimiter=self.separator, newlines_in_values=True, invalid_row_handler=note
            ),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )


def open_text(path: Path) -> TextFile:
    """Look through a CSV file: find the separator, and refuse what is not text or too long.

    Raises:
        DataError: the file is empty, is not UTF-8 text, or would not fit in memory.
    """
    try:
        with _open(path) as file:
            most, longest = _survey(path, file)
        separator, first = _dialect(path)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    check_memory(4 * most * len(first), f"{path}: its examples")
    return TextFile(path, separator, first, most, longest)


def _unreadable(path: Path, error: Exception) -> DataError:
    remedy = "; save it as UTF-8 text" if isinstance(error, UnicodeDecodeError) else ""
    return DataError(f"{path}: not a readable CSV file ({error}){remedy}")


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _survey(path: Path, file: BinaryIO) -> tuple[int, int]:
    """Return upper bounds on the number of rows and on the length of a line."""
    rows, unbroken, most_unbroken = 1, 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    plain = True
    while block := file.read(_BLOCK):
        _check_text(path, block)
        plain = plain and block.isascii()
        if not plain:
            decoder.decode(block)
        ends = _line_ends(block)
        rows, unbroken = rows + ends, 0 if ends else unbroken + 1
        most_unbroken = max(unbroken, most_unbroken)
        check_memory(4 * rows, f"{path}: its examples")
        if most_unbroken * _BLOCK > _LONGEST:
            raise DataError(f"{path}: not a readable CSV file (a line of {_LONGEST >> 20} MiB)")
    decoder.decode(b"", final=True)
    return rows, (most_unbroken + 2) * _BLOCK


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
