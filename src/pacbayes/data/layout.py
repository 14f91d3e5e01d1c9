"""The columns that a classifier was fitted to, and later rows as it takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from pacbayes.data.cells import TRUTH
from pacbayes.data.cells import is_missing as says_missing
from pacbayes.data.dataset import DataError
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.later import as_array, read_matched, spellings_of
from pacbayes.data.opening import as_arrow
from pacbayes.data.values import columns_of, is_framed, is_missing, is_numeric, is_sparse

__all__ = ["Layout", "Rows", "table_of"]

Array = NDArray[Any]
_Level = str | bool | int | float
_MICROSECONDS = 86_400 * 10**6  # of a day


class Rows(np.ndarray[Any, Any]):
    """An array of rows that a layout made, which it takes again as they are."""


class Layout(BaseModel):
    """The columns of a table that a classifier was fitted to.

    Attributes:
        kinds: what each column holds.
        names: of the columns; None if they are known by position.
        types: types of a data frame's columns; None if the table was an array. They are those of
            numpy and pandas, or those of Arrow for a frame of another library.
        library: whose data frame it was; `list` for a list of rows that are not numbers alone.
        label, dropped: columns of the file that are not features, if the table came from one.
        headless: the file had no header, so that its names are positions.
        spellings: categories that are written as numbers or truth values, by column; None if an
            earlier version did not record them.
        levels: the values of columns of pandas' type category, in order.
        exact: columns of texts that a file cannot hold: empty, a word for a missing value, or with
            spaces around them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: tuple[Kind, ...]
    names: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    library: str = "pandas"
    label: str | None = None
    dropped: tuple[str, ...] = ()
    headless: bool = False
    spellings: dict[str, tuple[str, ...]] | None = None
    levels: dict[str, tuple[_Level, ...]] = {}
    exact: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Any) -> Layout | None:
        """Return the layout of a table in memory, None for anything else.

        A table is a data frame, a two-dimensional array, or a list of rows.
        """
        if is_framed(X) and not hasattr(X, "iloc"):
            return cls._of_arrow(X)
        framed = hasattr(X, "columns")
        if not framed and not _is_array(X):
            return None
        columns = list(columns_of(X if framed else as_array(X)))
        names = tuple(map(str, X.columns if framed else range(len(columns))))
        pairs = list(zip(names, columns, strict=True))
        texts = {name: _texts(column) for name, column in pairs}
        plain = cls(
            kinds=tuple(map(_kind, columns)),
            spellings=_some({name: spellings_of(words) for name, words in texts.items()}),
            exact=tuple(name for name, words in texts.items() if any(map(_is_changed, words))),
        )
        if not framed:
            mixed = isinstance(X, list) and set(plain.kinds) != {Kind.NUMBER}
            return plain.model_copy(update={"library": "list"}) if mixed else plain
        levels = {name: _levels(X.iloc[:, i]) for i, name in enumerate(names)}
        types = tuple(map(str, X.dtypes))
        return plain.model_copy(update={"names": names, "types": types, "levels": _some(levels)})

    @classmethod
    def _of_arrow(cls, X: Any) -> Layout:
        """Return the layout of a data frame of another library than pandas, which must stay so."""
        table = as_arrow(X)
        return cls(
            kinds=tuple(_kind(np.array(c.to_pylist(), object)) for c in table.columns),
            names=tuple(table.schema.names),
            types=tuple(map(str, table.schema.types)),
            library=type(X).__module__.partition(".")[0],
        )

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
        if isinstance(X, Rows) or is_sparse(X):
            return X
        if self.library not in ("pandas", "list"):
            self._check_same(X)
            return X
        if self.types is not None and is_framed(X):
            return self._converted(X if hasattr(X, "iloc") else as_arrow(X).to_pandas())
        if self.names is None and _is_array(X):
            table = as_array(X)
            columns = list(columns_of(table))
            if len(columns) == len(self.kinds) and all(map(_fits, columns, self.kinds)):
                if self.library != "list":
                    return table
                return X if isinstance(X, list) else table.tolist()
        return self._laid_out(self._matched(X))

    def _check_readable(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.exact:
                raise DataError(
                    f"column {name!r} was fitted to texts that are empty, stand for a missing "
                    "value or have spaces around them; give a table as it was fitted"
                )

    def _check_same(self, X: Any) -> None:
        """Raise DataError unless a data frame has the library, names and types of that fitted."""
        other = self.library if not is_framed(X) else type(X).__module__.partition(".")[0]
        if not is_framed(X) or other != self.library:
            raise DataError(
                f"{type(X).__name__}: the classifier takes data frames of {self.library}"
            )
        table = as_arrow(X)
        found = dict(zip(table.schema.names, map(str, table.schema.types), strict=True))
        for name, kind in zip(self.names or (), self.types or (), strict=True):
            if found.get(name) != kind:
                raise DataError(
                    f"column {name!r} is {found.get(name, 'missing')}, but was {kind} when the "
                    "classifier was fitted"
                )

    def _matched(self, source: Any, **how: Any) -> Frame:
        self._check_readable(self.by_name)
        in_order = self.names is None or self.headless
        given = {"in_order": in_order, "dtype": np.float64} | how
        return read_matched(source, self.by_name, self.spellings, **given)

    def _laid_out(self, frame: Frame) -> Any:
        if self.library != "pandas":
            whom = "lists" if self.library == "list" else f"data frames of {self.library}"
            raise DataError(f"the classifier takes {whom} with the types that were fitted")
        if self.names is None and Kind.DATE in self.kinds:
            raise DataError("the classifier was fitted to an array of dates; give such an array")
        pairs = zip(frame.columns, self.kinds, strict=True)
        columns = {column.name: _values(column, kind) for column, kind in pairs}
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
            self._check_readable(rest)
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
        same = same and _levels(column) == self.levels.get(name, _levels(column))
        return same and _fits(np.asarray(column), self.kinds[i])

    def _typed(self, name: str, values: Array) -> Any:
        """Return a column of pandas in the type that was fitted, if that changes no value."""
        import pandas as pd

        plain = pd.Series(values, dtype=values.dtype)
        kind = (self.types or ())[list(self.by_name).index(name)]
        if self.by_name[name] is Kind.DATE:
            plain = pd.to_datetime((plain * _MICROSECONDS).round(), unit="us")
            plain = plain.dt.tz_localize("UTC") if ", " in kind else plain
        if name in self.levels:
            known = list(self.levels[name])
            new = [value for value in plain.dropna().unique() if value not in known]
            return pd.Series(pd.Categorical(plain, categories=[*known, *new]))
        try:
            typed = plain.astype(kind)
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
    there = [] if column.dtype.kind != "O" else [v for v in column if not is_missing(v)]
    if column.dtype.kind == "b" or (there and all(isinstance(v, bool | np.bool_) for v in there)):
        return Kind.BOOLEAN
    if not is_numeric(column):
        return Kind.CATEGORY
    dates = column.dtype.kind == "M" or (there and all(isinstance(v, date | time) for v in there))
    return Kind.DATE if dates else Kind.NUMBER


def _fits(column: Array, kind: Kind) -> bool:
    """Tell whether a column in memory is of a kind, as far as its values tell."""
    if column.dtype.kind == "O" and all(map(is_missing, column)):
        return True
    found = _kind(column)
    # True is 1, and earlier versions recorded dates as numbers.
    return found is kind or (kind is Kind.NUMBER and found is not Kind.CATEGORY)


def _texts(column: Array) -> list[str]:
    """Return the different values of a column of categories, as texts."""
    if is_numeric(column):
        return []
    return sorted({str(value) for value in column.tolist() if not is_missing(value)})


def _is_changed(text: str) -> bool:
    """Tell whether a file gives back something else than a text that was written to it."""
    return text != text.strip() or says_missing(text)


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
    if column.kind.numeric:
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
