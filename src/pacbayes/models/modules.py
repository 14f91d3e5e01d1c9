"""Torch modules inside a predictor: they must be in evaluation mode, and stay as they are."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from pacbayes.data.foreign import attributes_of, references
from pacbayes.data.sample import NoSampleError

__all__ = ["Modules"]

_LEVELS, _ITEMS, _OBJECTS = 6, 1000, 20_000  # how deep, and how many of each and of all
_GRAPHS = ("torch.fx", "torch.export", "torch._export")
_PLAIN = {str, bytes, bool, int, float, complex, type(None), np.ndarray}
_LIBRARIES = {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "torch", "pacbayes"}


class Modules:
    """The modules that a predictor refers to, and the state they had when they were found.

    They are looked for in the predictor itself, its attributes, the object of a bound method,
    closures, defaults, arguments of a partial, globals that its code names, and in containers, a
    few levels deep. Without torch there are none.
    """

    def __init__(self, predictor: Any) -> None:
        self.parts = {id(part): part for module in _found(predictor) for part in module.modules()}
        self._before = self._state()

    def refuse_training(self, who: str = "the predictor") -> None:
        """Raise NoSampleError if a module is in training mode."""
        if training := [p for p in self.parts.values() if _in_training(p)]:
            raise NoSampleError(
                f"{who} uses a {type(training[0]).__name__} in training mode, whose answers depend "
                "on the batch, on chance or on earlier calls; call model.eval() first"
            )

    def refuse_changes(self, who: str = "the predictor") -> None:
        """Raise NoSampleError if a parameter or buffer is not what it was."""
        now = self._state()
        changed = [self.parts[i] for i, state in self._before.items() if now[i] != state]
        if changed:
            raise NoSampleError(
                f"{who} changes while it answers: a parameter or buffer of a "
                f"{type(changed[0]).__name__} is no longer what it was before; predict with fixed "
                "weights and statistics"
            )

    def _state(self) -> dict[int, bytes]:
        return {i: _digest(part) for i, part in self.parts.items()}


def _in_training(part: Any) -> bool:
    """Tell whether a module is in training mode; graphs and their containers have no modes."""
    import torch

    kind = type(part)
    graph = kind is torch.nn.Module or kind.__module__.startswith(_GRAPHS)
    return bool(getattr(part, "training", False)) and not graph


def _digest(part: Any) -> bytes:
    """Return a hash of a module's own parameters and buffers."""
    import torch

    hasher = hashlib.sha256()
    for name, tensor in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        hasher.update(flat.view(torch.uint8).numpy())
    return hasher.digest()


def _found(predictor: Any) -> Iterator[Any]:
    """Yield the modules among the objects that can be reached, nearest first."""
    if (torch := sys.modules.get("torch")) is None:
        return
    seen, level = {id(predictor): predictor}, [predictor]
    for _ in range(_LEVELS):
        beyond = []
        for value in level:
            if isinstance(value, torch.nn.Module):
                yield value
            for part in islice(_parts(value, torch), _ITEMS):
                if type(part) in _PLAIN or id(part) in seen:
                    continue
                if len(seen) < _OBJECTS:
                    seen[id(part)] = part  # kept, so that no other object gets its id
                    beyond.append(part)
        level = beyond


def _parts(value: Any, torch: Any) -> Iterator[Any]:
    """Yield what an object refers to, but not the code of libraries."""
    if isinstance(value, ModuleType | torch.Tensor):
        return
    if isinstance(value, type):
        yield from () if _is_library(value) else list(vars(value).values())
    elif not (isinstance(value, FunctionType) and _is_library(value)):
        yield from references(value)
        yield from attributes_of(value)
        yield from type(value).__mro__


def _is_library(thing: Any) -> bool:
    root = str(getattr(thing, "__module__", None) or "builtins").partition(".")[0]
    return root in _LIBRARIES or root in sys.stdlib_module_names
