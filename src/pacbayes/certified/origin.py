"""What happened to examples before a classifier saw them, and what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pacbayes.data.foreign import apart, ask
from pacbayes.data.pipelines import fitted_before, is_searched, refuse_hidden_callers
from pacbayes.data.sample import FittedError, NoSampleError

__all__ = ["check_again", "check_batches", "check_in_place", "check_origin"]

Array = NDArray[Any]
Asked = Callable[[Any], Array]  # asks on a copy, and returns one answer for each example
_LOOKED_AT, _FEW = 5, 1000


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


def check_again(asked: Asked, X: Any, recorded: Array, who: str = "the predictor") -> None:
    """Raise NoSampleError unless a predictor gives its recorded answers once more."""
    if changed := _changed(asked(X), recorded):
        raise NoSampleError(
            f"{who} gave {changed} of {len(recorded)} different answers when asked again about the "
            "same examples; answers must not be random, nor depend on earlier calls"
        )


def check_batches(asked: Asked, X: Any, recorded: Array, who: str = "the predictor") -> None:
    """Raise NoSampleError if the answer to an example depends on the others in its batch.

    A few examples are asked about alone, and all of them in another order, half at a time.
    """
    for i in range(0, len(recorded), max(1, len(recorded) // _LOOKED_AT)):
        if _changed(asked(_safe_indexing(X, [i])), recorded[[i]]):
            raise NoSampleError(
                f"{who} answers differently to one example than to a batch of them; it must treat "
                "each example by itself"
            )
    order = np.random.default_rng(0).permutation(len(recorded))
    halves = [half for half in np.array_split(order, 2) if len(half)]
    if changed := sum(_changed(asked(_safe_indexing(X, h)), recorded[h]) for h in halves):
        raise NoSampleError(
            f"{who} gave {changed} of {len(recorded)} different answers when asked about half of "
            "the examples at a time, in another order; it must treat each example by itself"
        )


def check_in_place(predict: Callable[[Any], Any], X: Any, recorded: Array) -> None:
    """Raise NoSampleError if a predictor changes examples so that it answers otherwise next time.

    Some examples are copied once and asked about twice.
    """
    few = np.arange(min(len(recorded), _FEW))
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
    return int(np.count_nonzero(found != recorded))
