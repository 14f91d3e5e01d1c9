"""Checks that a bound set can be a sample of new examples for a predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from pacbayes.data.checks import FittedError, NoSampleError, check_sample
from pacbayes.data.pipelines import fitted_before, is_searched

__all__ = ["check_batches", "check_origin", "check_rows"]

Array = NDArray[Any]
_FEW, _ANYWAY = 0.01, 3  # repeats allowed: this share of the examples, or this number
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


def check_rows(X: Any, y: Array, *, repeats: bool) -> None:
    """Raise NoSampleError if examples are repeated or, where X is numeric, visibly scaled to fit.

    Args:
        repeats: allow duplicates, which are natural in data with few discrete features.
    """
    table = X if isinstance(X, np.ndarray) else None
    if table is not None and table.ndim == 2 and table.dtype.kind in "biuf":
        finite = np.isfinite(table).all()
        if finite and table.shape[1]:
            labels = torch.from_numpy(np.unique(y, return_inverse=True)[1])
            check_sample(torch.tensor(table.astype(np.float64)), labels, repeats=repeats)
            return
    if not repeats:
        _refuse_repeats(X, y)


def _refuse_repeats(X: Any, y: Array) -> None:
    again = len(y) - len({hash((row, str(label))) for row, label in zip(_rows(X), y, strict=True)})
    if again > max(_ANYWAY, _FEW * len(y)):
        raise NoSampleError(
            f"{again} of {len(y)} examples are duplicates: examples that were augmented or drawn "
            "with replacement are not independent; if your data naturally contain duplicates, say "
            "so with repeats=True"
        )


def _rows(X: Any) -> Iterator[Any]:
    """Yield something hashable for each row of an array, data frame, sparse matrix or list."""
    if issparse(X):
        rows = X.tocsr()
        for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            yield rows.indices[start:end].tobytes(), rows.data[start:end].tobytes()
    elif hasattr(X, "itertuples"):
        yield from map(repr, X.itertuples(index=False, name=None))
    elif isinstance(X, np.ndarray) and X.dtype != object:
        yield from (row.tobytes() for row in X)
    else:
        yield from (repr(list(row) if isinstance(row, np.ndarray) else row) for row in X)


def check_batches(predict: Callable[[Any], Any], X: Any, predicted: Array) -> None:
    """Raise NoSampleError if the answer to an example depends on the others in its batch."""
    for i in range(0, len(predicted), max(1, len(predicted) // _LOOKED_AT)):
        alone = np.asarray(predict(_safe_indexing(X, [i])))
        if alone.shape != (1,) or alone[0] != predicted[i]:
            raise NoSampleError(
                "the predictor answers differently to one example than to a batch of them; it must "
                "treat each example by itself"
            )
