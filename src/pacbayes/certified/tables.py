"""Tables as candidates take them: what they were fitted to, and the same from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from scipy.sparse import issparse

from pacbayes.certified.encoder import columns_of, is_framed, is_missing, is_numeric
from pacbayes.data.cells import TRUTH
from pacbayes.data.dataset import DataError
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.reading import column_names, read_frame

__all__ = ["Layout", "features_sha256", "table_of"]

Array = NDArray[Any]


class Layout(BaseModel):
    """The columns of a table that a classifier was fitted to.

    Attributes:
        kinds: what each column holds.
        names: of the columns; None if they are known by position.
        types: numpy types of a data frame's columns; None if the table was an array.
        label, dropped: columns of the file that are not features, if the table came from one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: tuple[Kind, ...]
    names: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    label: str | None = None
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Any) -> Layout | None:
        """Return the layout of a data frame or a two-dimensional array, None for anything else."""
        framed = hasattr(X, "iloc") and hasattr(X, "columns")
        if not framed and not (isinstance(X, np.ndarray) and X.ndim == 2):
            return None
        kinds = tuple(map(_kind, columns_of(X)))
        if not framed:
            return cls(kinds=kinds)
        return cls(kinds=kinds, names=tuple(map(str, X.columns)), types=tuple(map(str, X.dtypes)))

    def read(self, path: Path, label: str | None = None) -> tuple[Any, list[str] | None]:
        """Read a file; return features as the classifier takes them, and labels if it has any.

        Columns are matched by name, or by position if the classifier knows no names. Numbers are
        in float64.
        """
        names, label = self.names, label or self.label
        if names is None:
            names, label = _by_position(column_names(path, label), len(self.kinds), label, path)
        kinds = dict(zip(names, self.kinds, strict=True))
        frame = read_frame(path, label=label, kinds=kinds, drop=self.dropped, dtype=np.float64)
        columns = [_values(column, kinds[column.name]) for column in frame.columns]
        labels = None if frame.label is None else frame.label.texts().tolist()
        return (_array(columns) if self.types is None else self._data_frame(columns)), labels

    def _data_frame(self, columns: list[Array]) -> Any:
        import pandas as pd

        names, types = self.names or (), self.types or ()
        table = pd.DataFrame(dict(zip(names, columns, strict=True)))
        for name, kind, dtype in zip(names, self.kinds, types, strict=True):
            if kind is not Kind.CATEGORY and not table[name].isna().any():
                table[name] = table[name].astype(dtype)
        return table


def _kind(column: Array) -> Kind:
    if column.dtype.kind == "b":
        return Kind.BOOLEAN
    return Kind.NUMBER if is_numeric(column) else Kind.CATEGORY


def _by_position(
    found: tuple[str, ...], width: int, label: str | None, path: Path
) -> tuple[tuple[str, ...], str | None]:
    """Return the names of the features, and that of the label if there is one more column."""
    if label is None and len(found) == width + 1:
        label = found[-1]
    names = tuple(name for name in found if name != label)
    if len(names) != width:
        raise DataError(f"{path}: {len(names)} features, but the classifier was fitted to {width}")
    if found == tuple(map(str, range(len(found)))):  # no header: a name must not be a cell
        names = tuple(f"column {name}" for name in names)
        label = "label" if label == found[-1] else label
    return names, label


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
        words = [None if word is None else TRUTH.get(word.lower()) for word in words]
    values: Array = np.array(words, object)[column.values]  # −1, a missing value, is the last
    return values


def features_sha256(X: Any) -> str:
    """Return a hash of the features, which is the same for the same values in the same container.

    Numbers count by their bits, other values by what Python prints.
    """
    hasher = hashlib.sha256(b"pacbayes features 1\n")
    if issparse(X):
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()
        _feed(hasher, "sparse", [rows.indptr, rows.indices, rows.data])
    elif is_framed(X) and hasattr(X, "columns"):
        _feed(hasher, repr([str(name) for name in X.columns]), columns_of(X))
    else:
        table = X if isinstance(X, np.ndarray) else np.fromiter(map(repr, X), object, len(X))
        _feed(hasher, repr(table.shape), [table])
    return hasher.hexdigest()


def _feed(hasher: Any, head: str, arrays: Iterable[Array]) -> None:
    hasher.update(head.encode() + b"\n")
    for array in arrays:
        if array.dtype.kind in "biufmM":
            plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            hasher.update(f"{plain.dtype.str} {plain.size}\n".encode() + plain.tobytes())
        else:
            hasher.update(f"objects {array.size}\n".encode())
            for value in array.ravel().tolist():
                text = "missing" if is_missing(value) else f"{type(value).__name__} {value!r}"
                hasher.update(text.encode() + b"\0")
