"""Ask a predictor again: it must give the answers that its certificate was counted from.

Each time it gets a copy of the examples, and its answers are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pacbayes.data.foreign import apart, ask
from pacbayes.data.sample import NoSampleError
from pacbayes.models.candidates import answer
from pacbayes.models.modules import Modules
from pacbayes.models.votes import WeightedVote

__all__ = ["check_answers", "check_batches", "check_in_place"]

Array = NDArray[Any]
Asked = Callable[[Any], Array]  # asks on a copy, and returns one answer for each example
_LOOKED_AT, _FEW = 5, 1000


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
    for name, labels in predicted.items():
        if model.candidates_[name] is not model.estimator_:
            asked = partial(answer, model.candidates_[name])
            check_halves(asked, there, labels, f"candidate {name!r}")
    if isinstance(vote := model.estimator_, WeightedVote):
        who, counted = "the vote", vote.of(list(predicted.values()))
    else:
        who, counted = f"candidate {model.chosen_!r}", predicted[model.chosen_]
    check_batches(model.predict, there, counted, who)
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
                f"{who} answers differently to one example than to a batch of them; it must treat "
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
    return int(np.count_nonzero(found != recorded))
