"""What may be wrong with the word of a predictor: where it comes from, its modules, its answers.

Each time it is asked it gets a copy of the examples, and its answers are copied.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pacbayes.data.foreign import apart, ask, attributes_of, references
from pacbayes.data.preprocessing import fitted_before, is_searched, refuse_hidden_callers
from pacbayes.data.sample import FittedError, NoSampleError
from pacbayes.models.candidates import WeightedVote, ranked

__all__ = ["Modules", "check_answers", "check_batches", "check_in_place", "check_origin"]

Array = NDArray[Any]
Asked = Callable[[Any], Array]  # asks on a copy, and returns one answer for each example
_LOOKED_AT, _FEW = 5, 1000
_LEVELS, _ITEMS, _OBJECTS = 6, 1000, 20_000  # how deep, and how many of each and of all
_GRAPHS = ("torch.fx", "torch.export", "torch._export")
_PLAIN = {str, bytes, bool, int, float, complex, type(None), np.ndarray}
_LIBRARIES = {"numpy", "scipy", "sklearn", "pandas", "polars", "pyarrow", "torch", "pacbayes"}


def check_origin(estimator: Any) -> None:
    """Raise NoSampleError if something was fitted to, or chosen by, all of the examples."""
    if is_searched(estimator):
        raise NoSampleError(
            "a search chooses among classifiers by all examples, the bound set included; give them "
            "as candidates= instead, which pays for the choice"
        )
    if (step := fitted_before(estimator)) is not None:
        raise FittedError(
            f"{step} was fitted to all examples before this classifier saw them; give the whole "
            "pipeline as estimator=, which fits it to the other part alone"
        )
    refuse_hidden_callers(estimator)


def check_answers(
    model: Any, there: Any, predicted: Mapping[str, Array], answers: Array | None
) -> None:
    """Raise NoSampleError unless a fitted classifier gives the answers that were counted.

    Every candidate is asked about halves in another order, and the classifier itself again about
    all and about single examples too.

    Args:
        model: a `CertifiedClassifier`.
        there: features of the bound set.
        predicted: what every candidate answered there, by name.
        answers: which examples were answered, if some may not be.
    """
    modules = {f"candidate {name!r}": Modules(m) for name, m in model.candidates_.items()}
    k = next(iter(predicted.values()))[:1].size  # labels of an answer
    for name, labels in predicted.items():
        if model.candidates_[name] is not model.estimator_:
            asked = partial(ranked, model.candidates_[name], classes=model.classes_, k=k)
            check_halves(asked, there, labels, f"candidate {name!r}")
    if isinstance(vote := model.estimator_, WeightedVote):
        who, counted = "the vote", vote.of(list(predicted.values()))
    else:
        who, counted = f"candidate {model.chosen_!r}", predicted[model.chosen_]
    check_batches(model.predict if k == 1 else model.top, there, counted, who)
    if answers is not None:
        check_batches(model.answers, there, answers, who)
    for who, found in modules.items():
        found.refuse_changes(who)
        found.refuse_training(who)


def check_batches(asked: Asked, X: Any, recorded: Array, who: str = "the predictor") -> None:
    """Raise NoSampleError if a predictor's answers depend on the batch, or on earlier calls.

    It is asked again about all examples, about halves of them in another order, and a few alone.
    """
    check_again(asked, X, recorded, who)
    for i in range(0, len(recorded), max(1, len(recorded) // _LOOKED_AT)):
        if _changed(asked(_safe_indexing(X, [i])), recorded[[i]]):
            raise NoSampleError(
                f"{who} gives a different answer for one example than for a batch; it must treat "
                "each example by itself"
            )
    check_halves(asked, X, recorded, who)


def check_again(asked: Asked, X: Any, recorded: Array, who: str) -> None:
    """Raise NoSampleError unless a predictor gives its recorded answers once more."""
    if changed := _changed(asked(X), recorded):
        raise NoSampleError(
            f"{who} gave {changed} of {len(recorded)} different answers when asked again about the "
            "same examples; answers must not be random, nor depend on earlier calls"
        )


def check_halves(asked: Asked, X: Any, recorded: Array, who: str) -> None:
    """Raise NoSampleError unless a predictor gives the same answers in another order, in halves."""
    order = np.random.default_rng(0).permutation(len(recorded))
    halves = [half for half in np.array_split(order, 2) if len(half)]
    if changed := sum(_changed(asked(_safe_indexing(X, h)), recorded[h]) for h in halves):
        check_again(asked, X, recorded, who)  # names the cause if it is not the batch
        raise NoSampleError(
            f"{who} gave {changed} of {len(recorded)} different answers when asked about half of "
            "the examples at a time, in another order; it must treat each example by itself"
        )


def check_in_place(predict: Callable[[Any], Any], X: Any, n: int) -> None:
    """Raise NoSampleError if a predictor changes examples so that it answers otherwise next time.

    Some examples are copied once and asked about twice.
    """
    few = np.arange(min(n, _FEW))
    asked = partial(predict, apart(_safe_indexing(X, few)))
    first, second = np.asarray(ask(asked)), np.asarray(ask(asked))
    if changed := _changed(second, first):
        raise NoSampleError(
            f"the predictor changes the examples that it is given: asked twice about one array, it "
            f"gave {changed} of {len(few)} different answers; let it work on a copy"
        )


def _changed(found: Array, recorded: Array) -> int:
    """Return how many answers differ; all of them if there are not as many."""
    if np.shape(found) != np.shape(recorded):
        return len(recorded)
    return int((found != recorded).reshape(len(recorded), -1).any(axis=1).sum())


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
