"""Calls into code that is not ours: estimators, modules, callables, whoever wrote them.

Such code may work in place, sort what it is given, keep it to read it later, or return the same
buffer each time. So it gets copies that nothing else reads, and what it answers is copied too.
`references` finds what it may have seen: closures, attributes, defaults, globals that it names.
"""

from __future__ import annotations

import copy
import dis
import functools
from collections.abc import Callable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["apart", "ask", "attributes_of", "give", "references"]

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


def references(value: Any) -> Iterator[Any]:
    """Yield what a container, partial, method or function refers to directly."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, MethodType):
        yield value.__self__
        yield from references(value.__func__)
    elif isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, staticmethod | classmethod | property):
        yield value.fget if isinstance(value, property) else value.__func__
    elif callable(value) and not isinstance(value, type):
        yield _own(value, "__self__")  # of a method that is written in C


def attributes_of(value: Any) -> Iterator[Any]:
    """Yield the values of an object's own attributes."""
    yield from list((_own(value, "__dict__") or {}).values())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield _own(value, name)


def _own(value: Any, name: str) -> Any:
    """Return an attribute without running code of the object's class."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _of_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    outside = function.__globals__
    yield from (outside[name] for name in _globals_named(function.__code__) if name in outside)


def _globals_named(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that code reads, that of functions inside it too."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_named(inner)
