"""Typed columns as numbers for a network: constants that can be stored, applied row by row.

A certificate needs features that do not depend on the bound set, so every constant of an encoding
is a function of the rows that `fit_encoding` is given: those of the prior.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from pacbayes.data.cells import TRUTH, truth_words
from pacbayes.data.dataset import DataError, Floats, check_features
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.later import spellings_of

__all__ = [
    "BooleanCode",
    "CategoryCode",
    "DateCode",
    "Encoding",
    "NumberCode",
    "fit_encoding",
    "plain_encoding",
]

_CONFIG = ConfigDict(frozen=True, extra="forbid")


class NumberCode(BaseModel):
    """Standardise: (x − mean)/scale, with `fill` for a missing x.

    Attributes:
        missing: add a feature that is 1 where x is missing.
    """

    model_config = _CONFIG

    kind: Literal["number"] = "number"
    name: str
    fill: FiniteFloat = 0.0
    mean: FiniteFloat = 0.0
    scale: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return (self.name, f"{self.name} is missing") if self.missing else (self.name,)

    def apply(self, column: Column) -> Floats:
        """Return the features, (n, 1) or (n, 2)."""
        if column.kind is not Kind(self.kind):
            found = "texts" if not column.kind.numeric else f"{column.kind.value}s"
            had = f"but had {self.kind}s in the training set"
            raise DataError(f"column {self.name!r} has {found}, {had}")
        absent = column.missing
        x = np.where(absent, self.fill, column.values.astype(np.float64))
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            scaled = ((x - self.mean) / self.scale).astype(np.float32)
        parts = [scaled, absent.astype(np.float32)] if self.missing else [scaled]
        return np.stack(parts, axis=1)


class DateCode(NumberCode):
    """The same for dates, in days since 1970-01-01."""

    kind: Literal["date"] = "date"  # type: ignore[assignment]


class BooleanCode(BaseModel):
    """Return 1 for true and yes, 0 for false and no, and `fill` for anything else."""

    model_config = _CONFIG

    kind: Literal["boolean"] = "boolean"
    name: str
    fill: bool = False
    missing: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return (self.name, f"{self.name} is missing") if self.missing else (self.name,)

    def apply(self, column: Column) -> Floats:
        """Return the features, (n, 1) or (n, 2)."""
        return _by_category(column, self._row)

    def _row(self, word: str | None) -> list[float]:
        value = self.fill if word is None else TRUTH.get(word.lower(), self.fill)
        return [float(value), float(word is None)] if self.missing else [float(value)]


class CategoryCode(BaseModel):
    """One feature for every category, which is 1 in its rows and 0 elsewhere.

    Attributes:
        categories: those with a feature of their own; unknown ones have zeros everywhere.
        rare: those that share one feature.
        missing: add a feature that is 1 where the value is missing.
    """

    model_config = _CONFIG

    kind: Literal["category"] = "category"
    name: str
    categories: tuple[str, ...]
    rare: tuple[str, ...] = ()
    missing: bool = False

    @model_validator(mode="after")
    def _check(self) -> CategoryCode:
        known = (*self.categories, *self.rare)
        if len(set(known)) < len(known):
            raise ValueError(f"column {self.name!r} names a category twice")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        rest = [f"{self.name} is rare"] if self.rare else []
        rest += [f"{self.name} is missing"] if self.missing else []
        return (*(f"{self.name}={category}" for category in self.categories), *rest)

    def apply(self, column: Column) -> Floats:
        """Return the features, (n, k)."""
        known: list[str | None] = list(self.categories)
        place = {word: i for i, word in enumerate(known)}
        place |= dict.fromkeys(self.rare, len(known))
        place |= {None: len(known) + bool(self.rare)} if self.missing else {}
        width = len(self.names)
        return _by_category(column, lambda word: _one_hot(place.get(word), width))


def _one_hot(place: int | None, width: int) -> list[float]:
    return [float(i == place) for i in range(width)]


def _by_category(column: Column, row: Callable[[str | None], list[float]]) -> Floats:
    """Return the features of each row's category; None stands for a missing value."""
    if column.kind.numeric:
        raise DataError(f"column {column.name!r} has numbers, but had texts in the training set")
    rows = np.array([row(word) for word in (*column.categories, None)], np.float32)
    found: Floats = rows[column.values]  # −1 is the last row
    return found


def _refuse_missing(frame: Frame, where: str) -> None:
    for column in frame.columns:
        if column.missing.any():
            raise DataError(
                f"{where}, example {int(column.missing.argmax())} (counting from 0): column "
                f"{column.name!r} is missing, which it never was in the training set; fill it in"
            )


Code = Annotated[NumberCode | DateCode | BooleanCode | CategoryCode, Field(discriminator="kind")]


class Encoding(BaseModel):
    """How the columns of a table become the features of a network: plain numbers and texts."""

    model_config = _CONFIG

    format: Literal[1] = 1
    columns: Annotated[tuple[Code, ...], Field(min_length=1)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for code in self.columns for name in code.names)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns that a table needs, for `read_frame`."""
        return {code.name: Kind(code.kind) for code in self.columns}

    @property
    def spellings(self) -> dict[str, tuple[str, ...]]:
        """Categories that are written as numbers or truth values, for `read_matched`."""
        codes = [code for code in self.columns if isinstance(code, CategoryCode)]
        return {code.name: spellings_of((*code.categories, *code.rare)) for code in codes}

    @property
    def plain(self) -> bool:
        """Whether numbers stay as they are and nothing was fitted."""
        return all(
            not isinstance(code, CategoryCode) and code == type(code)(name=code.name)
            for code in self.columns
        )

    def apply(self, frame: Frame, where: str = "the table") -> Floats:
        """Return the features, (n, d); each row by itself, the same to the last bit in any table.

        Raises:
            DataError: a column is missing or of another kind, or a number is too large.
        """
        found = {column.name: column for column in frame.columns}
        if absent := [code.name for code in self.columns if code.name not in found]:
            raise DataError(f"{where}: no column {absent[0]!r}, which the training set has")
        if self.plain:
            _refuse_missing(frame, where)
            if frame.numbers is not None and frame.names == tuple(self.kinds):
                return frame.numbers
        x = np.empty((len(frame), len(self.names)), np.float32)
        start = 0
        for code in self.columns:
            part = code.apply(found[code.name])
            x[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        check_features(x, where)
        return x


LEAST, MOST = 5, 50  # rows of a category that is not rare, and number of such categories


def plain_encoding(frame: Frame, where: str = "the table") -> Encoding:
    """Return the encoding that changes nothing, for a prior that has no rows of its own.

    Raises:
        DataError: a column has categories or missing values, which must be fitted to something.
    """
    for column in frame.columns:
        if column.kind is Kind.CATEGORY:
            raise _unfitted(where, column, "categories")
        if column.missing.any():
            raise _unfitted(where, column, "missing values")
    kinds: dict[Kind, Any] = {Kind.NUMBER: NumberCode, Kind.BOOLEAN: BooleanCode}
    kinds[Kind.DATE] = DateCode
    return Encoding(columns=tuple(kinds[column.kind](name=column.name) for column in frame.columns))


def _unfitted(where: str, column: Column, what: str) -> DataError:
    return DataError(
        f"{where}: column {column.name!r} has {what}, whose encoding must not be fitted to the "
        f"bound set; give the prior a part of the data with --prior-fraction 0.5, or leave "
        f"the column out with --drop {column.name}"
    )


def fit_encoding(
    frame: Frame, rows: Sequence[int] | NDArray[np.int64], *, least: int = LEAST, most: int = MOST
) -> Encoding:
    """Return an encoding that depends on the given rows alone: those of the prior.

    Args:
        least: a category that occurs in fewer of these rows is rare.
        most: number of categories of a column that are not rare; the most frequent are kept.

    Raises:
        DataError: there are no rows, or a column has no value in them.
    """
    own = frame.take(rows)
    if not len(own):
        raise DataError("an encoding is fitted to the prior's rows, but there are none")
    codes = [
        _fit_number(column) if column.kind.numeric else _fit_texts(column, least, most)
        for column in own.columns
    ]
    return Encoding(columns=tuple(codes))


def _fit_number(column: Column) -> NumberCode:
    """Fit the median, then mean and standard deviation (of all rows, the missing ones filled)."""
    absent = column.missing
    _check_some(column, absent)
    values = column.values.astype(np.float64)
    fill = float(np.median(values[~absent]))
    x = np.where(absent, fill, values)
    mean = math.fsum(x.tolist()) / len(x)  # rounded once, whatever the order of the sum
    scale = math.sqrt(math.fsum(((x - mean) ** 2).tolist()) / len(x))
    constant = bool((x == x[0]).all())
    code = DateCode if column.kind is Kind.DATE else NumberCode
    return code(
        name=column.name,
        fill=fill,
        mean=mean,
        scale=1.0 if constant else scale,
        missing=bool(absent.any()),
    )


def _fit_texts(column: Column, least: int, most: int) -> BooleanCode | CategoryCode:
    """Fit truth values or categories: what the column has in other rows does not count."""
    absent = column.missing
    _check_some(column, absent)
    counts = Counter(column.texts()[~absent].tolist())
    missing = bool(absent.any())
    if truth_words(list(counts)):
        true = sum(count for word, count in counts.items() if TRUTH[word.lower()])
        return BooleanCode(name=column.name, fill=2 * true > counts.total(), missing=missing)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    kept = {word for word in ranked[:most] if counts[word] >= least}
    return CategoryCode(
        name=column.name,
        categories=tuple(sorted(kept)),
        rare=tuple(sorted(counts.keys() - kept)),
        missing=missing,
    )


def _check_some(column: Column, absent: NDArray[np.bool_]) -> None:
    if absent.all():
        raise DataError(
            f"column {column.name!r} has no value in the prior's part of the data; "
            f"leave it out with --drop {column.name}"
        )
