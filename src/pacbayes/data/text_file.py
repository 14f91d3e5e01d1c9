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
