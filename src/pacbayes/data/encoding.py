"""Typed columns as numbers for a network: constants that can be stored, applied row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from pacbayes.data.cells import TRUTH
from pacbayes.data.dataset import DataError, Floats, check_features
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.later import spellings_of

__all__ = ["BooleanCode", "CategoryCode", "Encoding", "NumberCode"]

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
        if column.kind is not Kind.NUMBER:
            raise DataError(f"column {self.name!r} has texts, but had numbers in the training set")
        absent = column.missing
        x = np.where(absent, self.fill, column.values.astype(np.float64))
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            scaled = ((x - self.mean) / self.scale).astype(np.float32)
        parts = [scaled, absent.astype(np.float32)] if self.missing else [scaled]
        return np.stack(parts, axis=1)


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
    if column.kind is Kind.NUMBER:
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


Code = Annotated[NumberCode | BooleanCode | CategoryCode, Field(discriminator="kind")]


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
