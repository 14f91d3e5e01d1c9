"""Checks that a bound set can be a sample of new examples for a predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing

from pacbayes.certified.encoder import columns_of, is_missing
from pacbayes.data.pipelines import fitted_before, is_searched
from pacbayes.data.sample import FittedError, NoSampleError, check_sample

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

    Tables with strings or missing values repeat rows by nature. There, only rows with a value in a
    column of mostly different values count.

    Args:
        repeats: allow duplicates, which are natural in data with few discrete features.
    """
    numbers = _numeric(X)
    if numbers is not None:
        check_sample(numbers, np.unique(y, return_inverse=True)[1], repeats=repeats)
    elif not repeats:
        _refuse_repeats(X, y)


def _numeric(X: Any) -> Array | None:
    """Return a table of finite numbers as float64, or None."""
    kinds = getattr(X, "dtypes", None)  # of a data frame
    if kinds is None:
        kinds = [X.dtype] if isinstance(X, np.ndarray) else []
    if not len(kinds) or any(getattr(kind, "kind", "O") not in "biuf" for kind in kinds):
        return None
    numbers = np.array(X, np.float64)
    return numbers if numbers.ndim == 2 and numbers.size and np.isfinite(numbers).all() else None


def _refuse_repeats(X: Any, y: Array) -> None:
    rows = zip(_rows(X), y, _distinctive(X, len(y)), strict=True)
    keys = [(row, str(label)) for row, label, counts in rows if counts]
    again = len(keys) - len(set(keys))
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
        for start, end in pairwise(rows.indptr):
            yield rows.indices[start:end].tobytes(), rows.data[start:end].tobytes()
    elif hasattr(X, "itertuples"):
        yield from map(repr, X.itertuples(index=False, name=None))
    else:
        yield from (repr(row.tolist() if hasattr(row, "tolist") else row) for row in X)


def _distinctive(X: Any, n: int) -> Array:
    """Return whether each row has a value in a column of mostly different values."""
    if not hasattr(X, "iloc") and not isinstance(X, np.ndarray):  # texts, sparse matrices
        return np.ones(n, bool)
    found = np.zeros(n, bool)
    for column in columns_of(X):
        there = np.array([not is_missing(value) for value in column])
        if len(set(map(str, column[there]))) > n / 4:
            found |= there
    return found


def check_batches(predict: Callable[[Any], Any], X: Any, predicted: Array) -> None:
    """Raise NoSampleError if the answer to an example depends on the others in its batch."""
    for i in range(0, len(predicted), max(1, len(predicted) // _LOOKED_AT)):
        alone = np.asarray(predict(_safe_indexing(X, [i])))
        if alone.shape != (1,) or alone[0] != predicted[i]:
            raise NoSampleError(
                "the predictor answers differently to one example than to a batch of them; it must "
                "treat each example by itself"
            )
