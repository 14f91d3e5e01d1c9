"""The columns that a classifier was fitted to, and later rows as it takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy.sparse import issparse

from pacbayes.data.arrow import as_arrow
from pacbayes.data.cells import TRUTH
from pacbayes.data.dataset import DataError
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.later import as_array, read_matched, spellings_of
from pacbayes.data.values import columns_of, is_framed, is_missing, is_numeric

__all__ = ["Layout", "Rows", "table_of"]

Array = NDArray[Any]
_Level = str | bool | int | float


class Rows(np.ndarray[Any, Any]):
    """An array of rows that a layout made, which it takes again as they are."""


class Layout(BaseModel):
    """The columns of a table that a classifier was fitted to.

    Attributes:
        kinds: what each column holds.
        names: of the columns; None if they are known by position.
        types: numpy types of a data frame's columns; None if the table was an array.
        label, dropped: columns of the file that are not features, if the table came from one.
        headless: the file had no header, so that its names are positions.
        spellings: categories that are written as numbers or truth values, by column; None if an
            earlier version did not record them.
        levels: the values of columns of pandas' type category, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: tuple[Kind, ...]
    names: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    label: str | None = None
    dropped: tuple[str, ...] = ()
    headless: bool = False
    spellings: dict[str, tuple[str, ...]] | None = None
    levels: dict[str, tuple[_Level, ...]] = {}

    @classmethod
    def of(cls, X: Any) -> Layout | None:
        """Return the layout of a table in memory, None for anything else.

        A table is a data frame of pandas, a two-dimensional array, or a list of rows.
        """
        framed = hasattr(X, "iloc") and hasattr(X, "columns")
        if not framed and not _is_array(X):
            return None
        columns = list(columns_of(X if framed else as_array(X)))
        names = tuple(map(str, X.columns if framed else range(len(columns))))
        pairs = list(zip(names, columns, strict=True))
        words = {name: spellings_of(_texts(column)) for name, column in pairs}
        plain = cls(kinds=tuple(map(_kind, columns)), spellings=_some(words))
        if not framed:
            return plain
        levels = {name: _levels(X.iloc[:, i]) for i, name in enumerate(names)}
        types = tuple(map(str, X.dtypes))
        return plain.model_copy(update={"names": names, "types": types, "levels": _some(levels)})

    @classmethod
    def of_file(cls, frame: Frame, dropped: Sequence[str]) -> Layout:
        """Return the layout of a file, of which `table_of` makes an array."""
        texts = [c for c in frame.columns if c.kind is Kind.CATEGORY]
        return cls(
            kinds=tuple(frame.kinds.values()),
            names=frame.names,
            label=None if frame.label is None else frame.label.name,
            dropped=tuple(dropped),
            headless=frame.headless,
            spellings=_some({c.name: spellings_of(c.categories) for c in texts}),
        )

    @property
    def by_name(self) -> dict[str, Kind]:
        """The kind of each column by its name, or by its position if it has none."""
        names = self.names or tuple(map(str, range(len(self.kinds))))
        if len(set(names)) < len(names):
            raise DataError("the classifier was fitted to two columns of one name; rename one")
        return dict(zip(names, self.kinds, strict=True))

    @property
    def from_file(self) -> bool:
        """Whether the table came from a file, whose columns have names but no types."""
        return self.names is not None and self.types is None

    def read(self, path: Path, label: str | None = None) -> tuple[Any, list[str] | None]:
        """Read a file; return features as the classifier takes them, and labels if it has any.

        Columns are matched by name, or by position if the classifier knows no names. Numbers are
        in float64.
        """
        frame = self._matched(path, label=label or self.label, others=self.dropped)
        labels = None if frame.label is None else frame.label.texts().tolist()
        return self._laid_out(frame), labels

    def rows(self, X: Any) -> Any:
        """Return rows in memory as the classifier takes them: as they are if they fit already.

        Raises:
            DataError: a column is missing, or holds something else than when it was fitted.
        """
        if isinstance(X, Rows) or issparse(X):
            return X
        if self.types is not None and is_framed(X):
            return self._converted(X if hasattr(X, "iloc") else as_arrow(X).to_pandas())
        if self.names is None and _is_array(X):
            columns = list(columns_of(as_array(X)))
            if len(columns) == len(self.kinds) and all(map(_fits, columns, self.kinds)):
                return X
        return self._laid_out(self._matched(X))

    def _matched(self, source: Any, **how: Any) -> Frame:
        in_order = self.names is None or self.headless
        given = {"in_order": in_order, "dtype": np.float64} | how
        return read_matched(source, self.by_name, self.spellings, **given)

    def _laid_out(self, frame: Frame) -> Any:
        columns = {c.name: _values(c, kind) for c, kind in zip(frame.columns, self.kinds, strict=True)}
        if self.types is None:
            return _array(list(columns.values())).view(Rows)
        import pandas as pd

        return pd.DataFrame({name: self._typed(name, values) for name, values in columns.items()})

    def _converted(self, table: Any) -> Any:
        """Return a data frame with the names and types of the one that was fitted."""
        names = list(map(str, table.columns))
        at = {name: names.index(name) for name in self.by_name if names.count(name) == 1}
        fitting = {n: table.iloc[:, i] for n, i in at.items() if self._takes(n, table.iloc[:, i])}
        if tuple(fitting) == self.names == tuple(names):
            return table
        rest = {name: kind for name, kind in self.by_name.items() if name not in fitting}
        if rest:
            there = rest.keys() <= at.keys()  # otherwise the message names what is missing
            part = table.iloc[:, [at[name] for name in rest]] if there else table
            frame = read_matched(part, rest, self.spellings, dtype=np.float64)
            for column in frame.columns:
                typed = self._typed(column.name, _values(column, rest[column.name]))
                fitting[column.name] = typed.set_axis(table.index)
        whole = table.iloc[:, [at[name] for name in self.by_name]].copy()
        for i, name in enumerate(self.by_name):
            whole.isetitem(i, fitting[name])
        return whole

    def _takes(self, name: str, column: Any) -> bool:
        """Tell whether a column is of the type and kind that was fitted."""
        i = list(self.by_name).index(name)
        same = str(column.dtype) == (self.types or ())[i]
        same = same and _levels(column) == self.levels.get(name, ())
        return same and _fits(np.asarray(column), self.kinds[i])

    def _typed(self, name: str, values: Array) -> Any:
        """Return a column of pandas in the type that was fitted, if that changes no value."""
        import pandas as pd

        plain = pd.Series(values, dtype=values.dtype)
        if name in self.levels:
            known = list(self.levels[name])
            new = [value for value in plain.dropna().unique() if value not in known]
            return pd.Series(pd.Categorical(plain, categories=[*known, *new]))
        try:
            typed = plain.astype((self.types or ())[list(self.by_name).index(name)])
        except (TypeError, ValueError):
            return plain
        same = (typed == plain) | (typed.isna() & plain.isna())
        return typed if same.fillna(False).all() else plain


def _is_array(X: Any) -> bool:
    """Tell whether X is a table without names: a two-dimensional array or a list of rows."""
    if isinstance(X, np.ndarray):
        return X.ndim == 2
    rows = isinstance(X, list) and bool(X) and all(isinstance(row, list | tuple) for row in X)
    return rows and as_array(X).ndim == 2


def _kind(column: Array) -> Kind:
    if column.dtype.kind == "b":
        return Kind.BOOLEAN
    return Kind.NUMBER if is_numeric(column) else Kind.CATEGORY


def _fits(column: Array, kind: Kind) -> bool:
    """Tell whether a column in memory is of a kind, as far as its values tell."""
    if column.dtype.kind == "O" and all(map(is_missing, column)):
        return True
    return _kind(column) is kind or (kind is Kind.NUMBER and column.dtype.kind == "b")


def _texts(column: Array) -> list[str]:
    """Return the different values of a column of categories, as texts."""
    if is_numeric(column):
        return []
    return sorted({str(value) for value in column.tolist() if not is_missing(value)})


def _levels(column: Any) -> tuple[_Level, ...]:
    """Return the values of a column of pandas' type category; nothing for other types."""
    found = getattr(column.dtype, "categories", None)
    values = () if found is None else tuple(found.tolist())
    return values if all(isinstance(value, str | bool | int | float) for value in values) else ()


def _some(found: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: values for name, values in found.items() if values}


def table_of(frame: Frame) -> Array:
    """Return the columns of a file as one array: of numbers if they all are, else of objects."""
    return _array([_values(column, column.kind) for column in frame.columns])


def _array(columns: list[Array]) -> Array:
    numeric = all(column.dtype.kind == "f" for column in columns)
    table: Array = np.empty((len(columns[0]), len(columns)), np.float64 if numeric else object)
    for j, column in enumerate(columns):
        table[:, j] = column
    return table


def _values(column: Column, kind: Kind) -> Array:
    """Return numbers with NaN for missing ones, or truth values or texts with None for them."""
    if column.kind is Kind.NUMBER:
        return column.values.astype(np.float64)
    words: list[Any] = [*column.categories, None]
    if kind is Kind.BOOLEAN:
        words = [None if word is None else _truth(column.name, word) for word in words]
    values: Array = np.array(words, object)[column.values]  # −1, a missing value, is the last
    return values


def _truth(name: str, word: str) -> bool:
    if word.lower() not in TRUTH:
        raise DataError(
            f"column {name!r}: {word!r} is neither true nor false; write yes or no, true or "
            "false, 1 or 0, or leave it empty if it is missing"
        )
    return TRUTH[word.lower()]
