"""Typed columns: numbers, booleans and categories, with missing values, and one hash for all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING_CODE", "Column", "Frame", "Kind"]

Floats = NDArray[np.float32]
MISSING_CODE = -1


class Kind(str, Enum):
    """What the values of a column are."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    CATEGORY = "category"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        values: numbers, float32 unless asked otherwise, NaN where one is missing, (n,); for the
            other kinds, indices into `categories` in int32, −1 where the value is missing.
        categories: the different values, sorted; a boolean column has `false` and `true`.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where a value is missing, (n,)."""
        numeric = self.kind is Kind.NUMBER
        found: NDArray[np.bool_] = (
            np.isnan(self.values) if numeric else np.equal(self.values, MISSING_CODE)
        )
        return found

    def texts(self) -> NDArray[np.str_]:
        """Return the values of a column of categories as texts, empty where one is missing."""
        found: NDArray[np.str_] = np.array([*self.categories, ""], dtype=np.str_)[self.values]
        return found

    def feed(self, hasher: Any, role: str) -> None:
        """Add the column to a hash: a line of JSON, then the values, little-endian."""
        head = [role, self.name, self.kind.value, len(self.values), list(self.categories)]
        hasher.update(json.dumps(head).encode() + b"\n")
        if self.kind is Kind.NUMBER:  # NaN has many bit patterns; the hash knows one
            values = np.where(np.isnan(self.values), np.float32(np.nan), self.values)
            hasher.update(np.ascontiguousarray(values, dtype="<f4").tobytes())
        else:
            hasher.update(np.ascontiguousarray(self.values, dtype="<i4").tobytes())


@dataclass(frozen=True)
class Frame:
    """A table of typed feature columns, and a label column if the source has one.

    Attributes:
        columns: the features, in the order of the training set.
        label: the labels, as categories.
        headless: the source is a CSV file, and its first row was read as an example.
        group: which rows belong together, as categories.
        numbers: all features, (n, d), if they are numbers; the columns are views of it.
    """

    columns: tuple[Column, ...]
    label: Column | None = None
    headless: bool = False
    group: Column | None = None
    numbers: Floats | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.columns[0].values)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each feature."""
        return {column.name: column.kind for column in self.columns}

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Frame:
        """Return some rows; categories stay as they are."""
        index = np.asarray(rows, dtype=np.int64)
        numbers = None if self.numbers is None else self.numbers[index]
        parts = (c.values[index] for c in self.columns) if numbers is None else numbers.T
        pairs = zip(self.columns, parts, strict=True)
        return replace(
            self,
            columns=tuple(replace(column, values=values) for column, values in pairs),
            label=self.label and replace(self.label, values=self.label.values[index]),
            group=self.group and replace(self.group, values=self.group.values[index]),
            numbers=numbers,
        )

    @property
    def plain(self) -> bool:
        """Whether all features are numbers, none of which is missing."""
        return self.numbers is not None and not np.isnan(self.numbers).any()

    def as_numbers(self) -> Floats:
        """Return the rows as they are in numbers, (n, k), to compare them with each other.

        Categories are their indices. A missing number is the column's mean, and another column
        says that it is missing.
        """
        if self.numbers is not None and self.plain:
            return self.numbers
        return np.stack([part for column in self.columns for part in _as_numbers(column)], axis=1)

    def continuous(self) -> Floats:
        """Return the columns of numbers that differ in most rows, (n, k), or zeros if none do.

        Near copies show in these: distances between discrete values jump.
        """
        numbers = [c for c in self.columns if c.kind is Kind.NUMBER]
        found = [_as_numbers(c)[0] for c in numbers if len(np.unique(c.values)) > len(self) / 2]
        return np.stack(found or [np.zeros(len(self), np.float32)], axis=1)

    @property
    def sha256(self) -> str:
        """Hash of names, kinds and values, whatever file they came from."""
        hasher = hashlib.sha256(b"pacbayes table 1\n")
        for column in self.columns:
            column.feed(hasher, "feature")
        if self.label is not None:
            self.label.feed(hasher, "label")
        if self.group is not None:
            self.group.feed(hasher, "group")
        return hasher.hexdigest()


def _as_numbers(column: Column) -> list[Floats]:
    absent = column.missing
    if column.kind is not Kind.NUMBER or not absent.any():
        return [column.values.astype(np.float32)]
    known = column.values[~absent].astype(np.float64)
    mean = known.mean() if len(known) else 0.0
    filled = np.where(absent, mean, column.values).astype(np.float32)
    return [filled, absent.astype(np.float32)]
