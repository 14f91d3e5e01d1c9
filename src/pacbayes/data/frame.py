"""Typed columns: numbers, booleans and categories, with missing values, and one hash for all.

Columns are built from chunks of cells: each is of one kind, and anything else is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.cells import (
    TRUTH,
    as_numbers,
    days_of,
    is_date,
    is_missing,
    is_number,
    is_odd_number,
    is_temporal,
    truth_words,
)
from pacbayes.data.dataset import DataError, Floats

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MISSING_CODE", "Builder", "Column", "Frame", "Kind"]

MISSING_CODE = -1


class Kind(str, Enum):
    """What the values of a column are."""

    NUMBER = "number"
    DATE = "date"  # in days since 1970-01-01
    BOOLEAN = "boolean"
    CATEGORY = "category"

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers, and not codes of categories."""
        return self in (Kind.NUMBER, Kind.DATE)


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        values: numbers, float32 unless asked otherwise, NaN where one is missing, (n,); dates are
            days since 1970-01-01. For the other kinds, indices into `categories` in int32, −1 where
            the value is missing.
        categories: the different values, sorted; a boolean column has `false` and `true`.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    categories: tuple[str, ...] = ()

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where a value is missing, (n,)."""
        numeric = self.kind.numeric
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
        if self.kind.numeric:  # NaN has many bit patterns; the hash knows one
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
        numbers = [c for c in self.columns if c.kind.numeric]
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
    if not (column.kind.numeric and absent.any()):
        return [column.values.astype(np.float32)]
    known = column.values[~absent].astype(np.float64)
    mean = known.mean() if len(known) else 0.0
    filled = np.where(absent, mean, column.values).astype(np.float32)
    return [filled, absent.astype(np.float32)]


_DECIMAL_COMMA = str.maketrans(",", ".")
_FEW = 20  # values of so short a column may all differ by chance


class Builder:
    """A column under construction.

    A column is of numbers if its first value is one, and of texts otherwise; nothing else than a
    single row decides, so the kind of a column reveals nothing about the other rows.

    Args:
        where: the file, for messages.
        first: number of the first row, for messages.
        room: where numbers are put, (n,).
        kind: kind of the column, if it is known beforehand.
    """

    def __init__(
        self, where: str, name: str, first: int, room: Floats, kind: Kind | None = None
    ) -> None:
        self.where, self.name, self.first = where, name, first
        self.room, self.kind = room, kind
        self.known = kind is not None
        self.codes: dict[str, int] = {}
        self.texts: list[NDArray[np.int32]] = []

    def add(self, cells: pa.Array, start: int) -> None:
        """Add a chunk whose first row is number `start`, counting from 0."""
        textual = self.kind is Kind.CATEGORY
        numbers = None if textual and self.known else self._in_numbers(cells, start)
        if numbers is None or textual:
            self._add_texts(cells, start)
        else:
            self._add_numbers(cells, numbers, start)

    def _in_numbers(self, cells: pa.Array, start: int) -> NDArray[Any] | None:
        """Return cells as numbers, or None if they are texts; dates are in days."""
        if self.kind is not Kind.DATE or is_temporal(cells.type):
            return as_numbers(cells)
        words, places = _encoded(cells)
        days = [math.nan if is_missing(word) else days_of(word) for word in words]
        wrong = np.array([day is None for day in days])[places]
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{self._at(start + row)}: {words[places[row]]!r} is not a date as 2020-02-01, but "
                "the column has dates; correct it, or leave it empty"
            )
        found: NDArray[Any] = np.array(days, np.float64)[places]
        return found

    def _add_numbers(self, cells: pa.Array, numbers: NDArray[Any], start: int) -> None:
        part = self.room[start : start + len(numbers)]
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
            part[:] = numbers
        finite = np.isfinite(part)
        if not finite.all() and (infinite := np.isinf(part)).any():
            self._refuse_infinite(cells, int(infinite.argmax()), start)
        if self.kind is None and finite.any():
            self.kind = Kind.DATE if is_temporal(cells.type) else Kind.NUMBER

    def _refuse_infinite(self, cells: pa.Array, row: int, start: int) -> None:
        raise DataError(
            f"{self._at(start + row)}: {str(cells[row].as_py()).strip()!r} is not a finite "
            f"{self.room.dtype} number; correct it, or leave it empty if it is missing"
        )

    def _add_texts(self, cells: pa.Array, start: int) -> None:
        words, places = _encoded(cells)
        given = np.array([not is_missing(word) for word in words])[places]
        if self.kind is None and given.any():
            self.kind = Kind.NUMBER if is_number(words[places[given.argmax()]]) else Kind.CATEGORY
            self.texts = [np.full(start, MISSING_CODE, np.int32)]
        if self.kind is None:
            self.room[start : start + len(places)] = np.nan
            return
        if self.kind is Kind.NUMBER or not self.known:
            self._check_kind(words, places, given, start)
        codes = np.array([self._code(word) for word in words], np.int32)
        self.texts.append(codes[places])

    def _code(self, word: str) -> int:
        return MISSING_CODE if is_missing(word) else self.codes.setdefault(word, len(self.codes))

    def _check_kind(
        self, words: list[str], places: NDArray[Any], given: NDArray[np.bool_], start: int
    ) -> None:
        """Raise DataError for the first value that is not of the column's kind."""
        odd = np.array([is_number(word) for word in words])[places]
        wrong = given & (~odd if self.kind is Kind.NUMBER else odd)
        if wrong.any():
            row = int(wrong.argmax())
            self._refuse_mixed(words[places[row]], start + row)

    def _refuse_mixed(self, word: str, row: int) -> None:
        if is_number(word):
            said = f"{word!r} is a number, but the column begins with other texts"
        elif is_number(word.translate(_DECIMAL_COMMA)):
            said = f"{word!r} has a decimal comma; write numbers with a point"
        else:
            said = f"{word!r} is not a number, but the column has numbers"
        known = "" if self.known else f", or make it categorical with --categorical {self.name}"
        raise DataError(f"{self._at(row)}: {said}; correct it, leave it empty{known}")

    def _at(self, row: int) -> str:
        return f"{self.where}, row {row + self.first}, column {self.name!r}"

    def required(self, n: int, role: str) -> Column:
        """Return a column of labels or groups, none of which may be missing."""
        values, words = self._categories(n)
        if (values == MISSING_CODE).any():
            row = int((values == MISSING_CODE).argmax())
            raise DataError(f"{self._at(row)}: the {role} is missing")
        self._check_odd(values, words)
        return Column(self.name, Kind.CATEGORY, values, words)

    def column(self, n: int) -> Column:
        """Return the column of n rows."""
        if self.kind is not None and self.kind.numeric:
            return Column(self.name, self.kind, self.room[:n])
        if self.kind is None:
            raise DataError(
                f"{self.where}: column {self.name!r} has no value at all; "
                f"leave it out with --drop {self.name}"
            )
        values, words = self._categories(n)
        if not self.known:
            if all(map(is_date, words)):
                return self._dates(values, words)
            self._check_texts(values, words)
            if truth_words(list(words)):
                return self._boolean(values, words)
        return Column(self.name, Kind.CATEGORY, values, words)

    def _check_odd(self, values: NDArray[np.int32], words: tuple[str, ...]) -> None:
        """Raise DataError for a text that is a number in an unusual spelling."""
        odd = [i for i, word in enumerate(words) if is_odd_number(word)]
        if odd:
            row = int(np.isin(values, odd).argmax())
            raise DataError(
                f"{self._at(row)}: {words[values[row]]!r} is not a number, but looks like one; "
                "write numbers in plain digits, or other texts"
            )

    def _categories(self, n: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Return indices into the sorted categories, and these."""
        words = sorted(self.codes)
        place = np.empty(len(words) + 1, np.int32)
        place[[self.codes[word] for word in words]] = np.arange(len(words), dtype=np.int32)
        place[-1] = MISSING_CODE
        parts = self.texts or [np.full(n, MISSING_CODE, np.int32)]
        return place[np.concatenate(parts)], tuple(words)

    def _boolean(self, values: NDArray[np.int32], words: tuple[str, ...]) -> Column:
        truth = np.array([*(TRUTH[word.lower()] for word in words), MISSING_CODE], np.int32)
        return Column(self.name, Kind.BOOLEAN, truth[values], ("false", "true"))

    def _dates(self, values: NDArray[np.int32], words: tuple[str, ...]) -> Column:
        days = [days_of(word) for word in words]
        if None in days:
            raise DataError(
                f"{self.where}: column {self.name!r} has dates or times such as "
                f"{words[days.index(None)]!r}, whose order is not known; write them with the year "
                f"first, as 2020-02-01, or leave the column out with --drop {self.name}"
            )
        found = np.array([*days, math.nan], self.room.dtype)[values]
        return Column(self.name, Kind.DATE, found)

    def _check_texts(self, values: NDArray[np.int32], words: tuple[str, ...]) -> None:
        out = f"leave it out with --drop {self.name}"
        self._check_odd(values, words)
        if all(is_number(word.translate(_DECIMAL_COMMA)) for word in words):
            raise DataError(
                f"{self.where}: column {self.name!r} has decimal commas ({words[0]!r}); "
                "write numbers with a point"
            )
        if len(words) >= _FEW and len(words) == (values != MISSING_CODE).sum():
            raise DataError(
                f"{self.where}: column {self.name!r} has a different text in every row, as an "
                f"identifier does, from which nothing can be learned; {out}"
            )


def _encoded(cells: pa.Array) -> tuple[list[str], NDArray[Any]]:
    """Return the different texts of some cells, and the place of each cell among them."""
    encoded = cells if hasattr(cells, "dictionary") else cells.dictionary_encode()
    words = [*map(_text, encoded.dictionary.to_pylist()), ""]
    places = encoded.indices.fill_null(len(words) - 1)
    return words, places.to_numpy(zero_copy_only=False)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).strip()
