"""Typed columns: numbers, booleans and categories, with missing values, and one hash for all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING_CODE", "Column", "Frame", "Kind"]

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
    """

    columns: tuple[Column, ...]
    label: Column | None = None
    headless: bool = False

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
        columns = tuple(replace(c, values=c.values[index]) for c in self.columns)
        label = self.label and replace(self.label, values=self.label.values[index])
        return replace(self, columns=columns, label=label)

    @property
    def sha256(self) -> str:
        """Hash of names, kinds and values, whatever file they came from."""
        hasher = hashlib.sha256(b"pacbayes table 1\n")
        for column in self.columns:
            column.feed(hasher, "feature")
        if self.label is not None:
            self.label.feed(hasher, "label")
        return hasher.hexdigest()
