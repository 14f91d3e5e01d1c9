"""CSV files of examples: find the header and the label column, and name every bad cell."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError, Floats, Table
from pacbayes.spelling import did_you_mean

__all__ = ["read_csv"]


def read_csv(
    path: Path, label: str | None = None, width: int | None = None, usual: str | None = None
) -> Table:
    """Read a CSV file; the arguments are those of `read_table`."""
    rows = _read_rows(path)
    rows[0] = [cell.strip() for cell in rows[0]]
    layout = _find_layout(path, rows[0], label, width, usual)
    body = rows[1:] if layout.header else rows
    if not body:
        raise DataError(f"{path}: a header but no examples")
    return Table(
        layout.convert(path, body), layout.labels(body), layout.names, headless=not layout.header
    )


def _read_rows(path: Path) -> list[list[str]]:
    """Return the rows that are not empty, at least one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from error
    if not rows:
        raise DataError(f"{path}: no examples; the file is empty")
    return rows


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

    def labels(self, body: list[list[str]]) -> NDArray[np.str_] | None:
        """Return the labels, (n,), if there is a label column."""
        column = self.column
        return None if column is None else np.array([row[column].strip() for row in body])

    def convert(self, path: Path, body: list[list[str]]) -> Floats:
        """Return the features, (n, d); raise DataError for the first row that has a bad cell."""
        x = np.empty((len(body), len(self.features)), np.float32)
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
            for r, row in enumerate(body):
                if not self._put(row, x[r]):
                    raise DataError(f"{path}, row {r + 1 + self.header}{self._problem(row)}")
        return x

    def _put(self, row: list[str], numbers: Floats) -> bool:
        """Write the numbers of a row; return False if anything is wrong with the row."""
        if len(row) != len(self.first) or not self._has_label(row):
            return False
        try:
            numbers[:] = [float(row[i]) for i in self.features]
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
        bad = next(i for i in self.features if not np.isfinite(np.float32(float(row[i]))))
        return f"{self._at(bad)}: {row[bad]!r} is not a finite float32 number"

    def _not_a_number(self, cell: str) -> str:
        if not cell.strip():
            return "a value is missing"
        sure = self.chosen or self.column is None
        hint = "" if sure else "; if the labels are in another column, name it with --label"
        return f"{cell!r} is not a number{hint}"

    def _at(self, i: int) -> str:
        return f", column {self.first[i]!r}" if self.header else f", column {i}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
