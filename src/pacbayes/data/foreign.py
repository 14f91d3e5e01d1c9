"""Calls into code that is not ours: estimators, modules, callables, whoever wrote them.

Such code may work in place, sort what it is given, keep it to read it later, or return the same
buffer each time. So it gets copies that nothing else reads, and what it answers is copied too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["apart", "ask", "give"]

_UNCHANGEABLE = frozenset((str, bytes, bool, int, float, complex, type(None), Decimal))
_SCALARS = (np.generic, date, time, timedelta)  # with subclasses, such as those of pandas


def ask(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call foreign code on copies of its arguments, and return a copy of its answer."""
    return apart(give(function, *args, **kwargs))


def give(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call foreign code on copies of its arguments, and return what it returns.

    For answers that are not data, such as a fitted model, or that the caller copies anyway.
    """
    return function(*map(apart, args), **{name: apart(value) for name, value in kwargs.items()})


def apart(value: Any) -> Any:
    """Return a copy of an array, frame, tensor, sparse matrix, list or the like.

    No memory that either can write to is shared. The layout in memory stays the same, a tensor's
    copy passes gradients on, and a memory-mapped array is read.
    """
    if isinstance(value, np.ndarray):
        return _array(value)
    if hasattr(value, "iloc"):
        return _pandas(value)
    if hasattr(value, "detach") and hasattr(value, "clone"):  # a tensor
        return value.clone()
    if type(value) in (list, tuple):
        return type(value)(map(apart, value))
    if type(value) is dict:
        return {key: apart(item) for key, item in value.items()}
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise ValueError(
            f"data of type {type(value).__name__} cannot be copied ({error}); give an array, data "
            "frame, tensor or list"
        ) from error


def _array(value: NDArray[Any]) -> NDArray[Any]:
    if value.dtype.hasobject and not _unchangeable(value):
        return copy.deepcopy(value)
    return np.array(value) if isinstance(value, np.memmap) else value.copy(order="K")


def _unchangeable(objects: NDArray[Any]) -> bool:
    """Return whether no object can be changed in place, so that references may be shared."""
    kinds = set(map(type, objects.ravel(order="K").tolist()))
    return all(
        kind in _UNCHANGEABLE or issubclass(kind, _SCALARS) or kind.__name__ == "NAType"
        for kind in kinds
    )


def _pandas(value: Any) -> Any:
    """Return a copy of a data frame or series, with the objects in it and its labels."""
    copied = value.copy(deep=True)
    copied.index = value.index.copy(deep=True)
    if value.ndim == 1:
        return _objects(copied)
    copied.columns = value.columns.copy(deep=True)
    for i, dtype in enumerate(value.dtypes):
        if isinstance(dtype, np.dtype) and dtype.hasobject:
            copied.isetitem(i, _objects(copied.iloc[:, i]))
    return copied


def _objects(series: Any) -> Any:
    """Return a series with copies of its objects, if any of them can be changed."""
    dtype, index = series.dtype, series.index
    if not (isinstance(dtype, np.dtype) and dtype.hasobject) or _unchangeable(series.to_numpy()):
        return series
    return type(series)(copy.deepcopy(series.to_numpy()), index, dtype, name=series.name)
