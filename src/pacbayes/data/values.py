"""Columns of arrays and data frames in memory, and the numbers in them."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["columns_of", "is_framed", "is_missing", "is_numeric", "is_sparse", "numbers_of"]

Array = NDArray[Any]


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
        return (np.asarray(X.iloc[:, i]) for i in range(X.shape[1]))
    table = np.asarray(X)
    if table.dtype.kind == "c":
        raise ValueError("Complex data not supported; give real and imaginary parts as columns")
    if table.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {table.shape}")
    return iter(table.T)


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
    if column.dtype.kind != "O" or not all(isinstance(v, Real) or is_missing(v) for v in column):
        return None
    return np.array([np.nan if is_missing(v) else float(v) for v in column])
