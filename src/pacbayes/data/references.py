"""What a Python object refers to: closures, attributes, defaults, globals that its code names."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["attributes_of", "references"]


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
