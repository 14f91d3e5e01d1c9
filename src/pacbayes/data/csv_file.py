"""CSV files of examples: find the header and the label column, and name every bad cell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.arrow import Opened
from pacbayes.data.dataset import DataError, Floats, Table
from pacbayes.data.frame import Kind
from pacbayes.data.reading import Wanted, build
from pacbayes.data.text_file import TextFile, open_text
from pacbayes.spelling import did_you_mean

__all__ = ["read_csv"]

_REMEDY = (
    "fill in missing values and encode categories first, or use CertifiedClassifier in Python, "
    "which takes them as they are"
)
Examples = tuple[Floats, NDArray[np.str_] | None]


def read_csv(
    path: Path, label: str | None = None, width: int | None = None, usual: str | None = None
) -> Table:
    """Read a CSV file; the arguments are those of `read_table`."""
    text = open_text(path)
    layout = _find_layout(path, list(text.first), label, width, usual)
    x, labels = _read_fast(text, layout) or _read_row_by_row(text, layout)
    return Table(x, labels, layout.names, headless=not layout.header)


def _read_fast(text: TextFile, layout: _Layout) -> Examples | None:
    """Return features and labels, or None if a cell is wrong."""
    names = tuple(map(str, range(len(text.first))))
    chunks = text.chunks(layout.header)
    opened = Opened(str(text.path), names, text.most, chunks, headless=not layout.header)
    features = [Wanted(i, names[i], Kind.NUMBER) for i in layout.features]
    label = None if layout.column is None else Wanted(layout.column, names[layout.column])
    try:
        x, frame = build(opened, features, label)
    except DataError:
        return None
    labels = None if frame.label is None else frame.label.texts()
    return None if np.isnan(x).any() else (x, labels)


def _read_row_by_row(text: TextFile, layout: _Layout) -> Examples:
    """Return features and labels; raise DataError for the first row that has a bad cell."""
    x = np.empty((text.most, len(layout.features)), np.float32)
    labels, n = [], 0
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
        for row in text.rows(layout.header):
            layout.put(row, x[n], f"{text.path}, row {n + 1 + layout.header}")
            labels.append("" if layout.column is None else row[layout.column].strip())
            n += 1
    if not n:
        raise DataError(f"{text.path}: a header but no examples")
    return x[:n], None if layout.column is None else np.array(labels)


def _find_layout(
    path: Path, first: list[str], label: str | None, width: int | None, usual: str | None
) -> _Layout:
    """Find the label column and the header from the first row."""
    label = _asked_label(first, label, width, usual)
    unlabelled = label is None and len(first) == width
    column = None if unlabelled else _label_column(path, first, label)
    features = [i for i in range(len(first)) if i != column]
    if not features:
        raise DataError(f"{path}: only one column; fields must be separated by commas")
    return _Layout(first, features, column, _is_header(first, features, label), bool(label))


def _asked_label(
    first: list[str], label: str | None, width: int | None, usual: str | None
) -> str | None:
    """Return the label column asked for, or the usual one if the file seems to have it."""
    if label is not None:
        return label
    return usual if usual in first or len(first) - 1 == width else None


def _is_header(first: list[str], features: list[int], label: str | None) -> bool:
    """Tell whether the first row has the label's name, or a feature that is not a number."""
    return label in first or any(first[i] and not _is_number(first[i]) for i in features)


def _label_column(path: Path, first: list[str], label: str | None) -> int:
    """Return the position of the label column, given by name or position; the last by default."""
    if label is None:
        return len(first) - 1
    if label in first:
        return first.index(label)
    if label.isdecimal() and int(label) < len(first):
        return int(label)
    raise DataError(f"{path}: no column {label!r}{_column_hint(first, label)}")


def _column_hint(first: list[str], label: str) -> str:
    some = ", ".join(first[:8]) + (", …" if len(first) > 8 else "")
    return did_you_mean(label, first) or f"; the columns are {some}"


@dataclass(frozen=True)
class _Layout:
    """Which columns of a CSV file are what, from its first row.

    Attributes:
        features: positions of the feature columns.
        column: position of the label column, if there is one.
        header: whether the first row is a header.
        chosen: whether the label column was chosen; otherwise it is the last by default.
    """

    first: list[str]
    features: list[int]
    column: int | None
    header: bool
    chosen: bool

    @property
    def names(self) -> tuple[str, ...] | None:
        """Feature names, if there is a header."""
        return tuple(self.first[i] for i in self.features) if self.header else None

    def put(self, row: list[str], numbers: Floats, where: str) -> None:
        """Write the numbers of a row; raise DataError if anything is wrong with the row."""
        if not self._fits(row, numbers):
            raise DataError(f"{where}{self._problem(row)}")

    def _fits(self, row: list[str], numbers: Floats) -> bool:
        if len(row) != len(self.first) or not self._has_label(row):
            return False
        try:
            numbers[:] = [_number(row[i]) for i in self.features]
        except ValueError:
            return False
        return bool(np.isfinite(numbers).all())

    def _has_label(self, row: list[str]) -> bool:
        return self.column is None or bool(row[self.column].strip())

    def _problem(self, row: list[str]) -> str:
        """Return the end of the error message for a bad row: the column and what is wrong."""
        if len(row) != len(self.first):
            return f": {len(row)} columns, expected {len(self.first)} as in the first row"
        if self.column is not None and not self._has_label(row):
            return f"{self._at(self.column)}: the label is missing"
        return self._bad_cell(row)

    def _bad_cell(self, row: list[str]) -> str:
        for i in self.features:
            if not _is_number(row[i]):
                return f"{self._at(i)}: {self._not_a_number(row[i])}"
        bad = next(i for i in self.features if not np.isfinite(np.float32(_number(row[i]))))
        return f"{self._at(bad)}: {row[bad]!r} is not a finite float32 number"

    def _not_a_number(self, cell: str) -> str:
        if not cell.strip():
            return f"a value is missing; {_REMEDY}"
        sure = self.chosen or self.column is None
        hint = "" if sure else "; if these are the labels, name the column with --label"
        return f"{cell!r} is not a number; {_REMEDY}{hint}"

    def _at(self, i: int) -> str:
        return f", column {self.first[i]!r}" if self.header else f", column {i}"


def _number(text: str) -> float:
    """Return a number written in ASCII; Python would also take 1_0 and digits of other scripts."""
    if "_" in text or not text.strip().isascii():
        raise ValueError(text)
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True
