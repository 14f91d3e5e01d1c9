"""What happened to examples before a classifier saw them, and what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pacbayes.data.pipelines import fitted_before, is_searched, refuse_hidden_callers
from pacbayes.data.sample import FittedError, NoSampleError

__all__ = ["check_batches", "check_origin"]

Array = NDArray[Any]
_LOOKED_AT = 5


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


def check_batches(predict: Callable[[Any], Any], X: Any, predicted: Array) -> None:
    """Raise NoSampleError if the answer to an example depends on the others in its batch."""
    for i in range(0, len(predicted), max(1, len(predicted) // _LOOKED_AT)):
        alone = np.asarray(predict(_safe_indexing(X, [i])))
        if alone.shape != (1,) or alone[0] != predicted[i]:
            raise NoSampleError(
                "the predictor answers differently to one example than to a batch of them; it must "
                "treat each example by itself"
            )
