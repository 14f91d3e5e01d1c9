"""Rows and columns in memory, in any container: the numbers in them, their keys and their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from numbers import Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "blocks_of",
    "columns_of",
    "features_sha256",
    "finite_columns",
    "finite_numbers",
    "is_framed",
    "is_missing",
    "is_numeric",
    "is_sparse",
    "is_table",
    "numbers_of",
    "row_keys",
]

Array = NDArray[Any]
_NUMBERS = 1_000_000  # of a block
_EPOCH = datetime(1970, 1, 1)
_BYTES = 16  # of the hash that stands for a row of numbers


def blocks_of(rows: Array) -> Iterator[slice]:
    """Divide the rows of an array into blocks of a million numbers.

    Whatever looks at all examples holds a few of them at a time.
    """
    size = max(1, _NUMBERS * len(rows) // max(1, rows.size))
    return (slice(start, start + size) for start in range(0, len(rows), size))


def is_framed(X: Any) -> bool:
    """Tell whether X is a data frame: pandas, polars, an Arrow table or another that exports it."""
    return any(hasattr(X, name) for name in ("iloc", "__arrow_c_stream__", "__dataframe__"))


def is_sparse(X: Any) -> bool:
    """Tell whether X is a sparse matrix of SciPy, which need not be installed."""
    return hasattr(X, "tocsr")


def columns_of(X: Any) -> Iterator[Array]:
    """Yield the columns of an array or a data frame."""
    if is_sparse(X):
        raise ValueError(
            "sparse input is not supported by the default candidates: call X.toarray(), or give "
            "estimator= or candidates= that take it"
        )
    if hasattr(X, "iloc"):
        return (_real(np.asarray(X.iloc[:, i])) for i in range(X.shape[1]))
    table = _real(np.asarray(X))
    if table.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {table.shape}")
    return iter(table.T)


def _real(array: Array) -> Array:
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported; give real and imaginary parts as columns")
    return array


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or what pandas puts for them."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Real) and value != value


def is_numeric(column: Array) -> bool:
    """Return whether a column holds numbers, booleans, dates or missing values alone."""
    return numbers_of(column) is not None


def numbers_of(column: Array) -> Array | None:
    """Return a column as float64 with NaN for missing values, or None if it holds categories."""
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind in "mM":
        known = ~np.isnat(column)
        return np.where(known, column.astype("i8"), np.nan)
    if column.dtype.kind != "O":
        return None
    there = [value for value in column if not is_missing(value)]
    if all(isinstance(value, Real | Decimal) for value in there):
        number: Callable[[Any], float] = float
    elif all(isinstance(value, date | time) for value in there):
        number = _nanoseconds
    else:
        return None
    return np.array([np.nan if is_missing(value) else number(value) for value in column])


def _nanoseconds(value: date | time) -> float:
    """Return a date or time as datetime64[ns] has it, in UTC where it has a zone."""
    if isinstance(value, time):
        value = datetime.combine(_EPOCH, value)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    since = value - _EPOCH.replace(tzinfo=None if value.tzinfo is None else timezone.utc)
    return float(1000 * (since // timedelta(microseconds=1)))


def is_table(X: Any) -> bool:
    """Return whether X is a frame, or an array of rows and columns."""
    return is_framed(X) or (isinstance(X, np.ndarray) and X.ndim == 2)


def finite_columns(table: Array) -> Array:
    """Return whether all numbers of each column are finite."""
    parts = [np.isfinite(table[block]).all(axis=0) for block in blocks_of(table)]
    columns: Array = np.all(parts, axis=0)
    return columns


def finite_numbers(X: Any) -> Array | None:
    """Return the columns of finite numbers, (n, d), or None; an array itself if all of them are."""
    if not is_table(X):
        return None
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        finite = finite_columns(X) if X.size else np.zeros(0, bool)
        return (X if finite.all() else X[:, finite]) if finite.any() else None
    columns = (c for c in columns_of(X) if c.dtype.kind in "biuf")
    known = [c.astype(np.float64) for c in columns if np.isfinite(c).all()]
    return np.stack(known, axis=1) if known and len(known[0]) else None


def row_keys(X: Any) -> Iterator[Hashable]:
    """Yield something hashable for each row of an array, data frame, sparse matrix or list."""
    if is_sparse(X):
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        for start, end in pairwise(rows.indptr):
            yield rows.indices[start:end].tobytes(), rows.data[start:end].tobytes()
    elif (numbers := _all_numbers(X)) is not None:
        for block in blocks_of(numbers):
            plain = numbers[block].astype(np.float64, order="C") + 0.0  # −0 is 0
            plain[np.isnan(plain)] = np.nan  # which has many forms
            yield from (hashlib.blake2b(row, digest_size=_BYTES).digest() for row in plain)
    elif is_framed(X):
        columns = (column.tolist() for column in columns_of(X))
        yield from (tuple(map(_cell, row)) for row in zip(*columns, strict=True))
    else:
        rows = (row.tolist() if hasattr(row, "tolist") else row for row in X)
        yield from (tuple(map(_cell, r)) if isinstance(r, list) else _cell(r) for r in rows)


def _all_numbers(X: Any) -> Array | None:
    """Return arrays and tensors of numbers, also of images, and frames of finite numbers alone."""
    if hasattr(X, "detach"):  # a tensor; numpy has no bfloat16
        X = X.detach().cpu()
        X = (X.float() if X.is_floating_point() and X.element_size() < 4 else X).numpy()
    if isinstance(X, np.ndarray):
        return X if X.ndim > 1 and X.dtype.kind in "biuf" else None
    numbers = finite_numbers(X)
    return numbers if numbers is not None and numbers.shape == X.shape else None


def _cell(value: Any) -> Hashable:
    """Return a value that is equal for equal cells: 1 is 1.0, −0 is 0, and NaN is missing."""
    if is_missing(value):
        return None
    return value if isinstance(value, str | Number) else repr(value)


def features_sha256(X: Any) -> str:
    """Return a hash of the features, which is the same for the same values in the same container.

    Numbers count by their bits, other values by what Python prints.
    """
    hasher = hashlib.sha256(b"pacbayes features 1\n")
    if is_sparse(X):
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
