"""What scikit-learn did to the data before a classifier saw them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _is_fitted

from pacbayes.data.references import references
from pacbayes.data.sample import NoSampleError

__all__ = ["fitted_before", "is_searched", "refuse_fitted_state", "refuse_hidden_callers"]

_OPEN = ("sklearn.base", "sklearn.utils", "sklearn.model_selection")  # fit nothing before
_UNCHANGED = (BaseSearchCV, VotingClassifier, OneVsRestClassifier)  # pass the features on as is


def fitted_before(estimator: Any) -> str | None:
    """Return the name of a step that was fitted to the data before `estimator` received them.

    Such a step has seen the bound set, and possibly its labels. It is found on the call stack: a
    pipeline, or any other estimator, whose `fit` is calling this one.
    """
    for owner in _callers(estimator):
        if isinstance(owner, Pipeline):
            for name, step in owner.steps[:-1]:
                if step not in (None, "passthrough") and _requires_fit(step):
                    return f"{type(step).__name__} (step {name!r} of a pipeline)"
        elif not isinstance(owner, _UNCHANGED):
            return type(owner).__name__
    return None


def is_searched(estimator: Any) -> bool:
    """Return whether a search such as GridSearchCV is fitting the estimator."""
    return any(isinstance(owner, BaseSearchCV) for owner in _callers(estimator))


def refuse_hidden_callers(estimator: Any) -> None:
    """Raise NoSampleError if an ensemble fits the estimator in a joblib worker.

    The stack of a worker does not show the ensemble, nor a pipeline around it. It shows only the
    function by which the ensemble fits its members.
    """
    hidden = None
    for frame in _frames():
        module, owner = frame.f_globals.get("__name__", ""), frame.f_locals.get("self")
        if isinstance(owner, BaseEstimator) and owner is not estimator:
            hidden = None
        elif module.startswith("sklearn.") and not module.startswith(_OPEN):
            hidden = module
    if hidden is not None:
        raise NoSampleError(
            f"{hidden} fits this classifier in a worker, which hides the steps before it; set "
            "n_jobs=None there"
        )


def _callers(estimator: Any) -> Iterator[BaseEstimator]:
    for frame in _frames():
        owner = frame.f_locals.get("self")
        if isinstance(owner, BaseEstimator) and owner is not estimator:
            yield owner


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _requires_fit(step: Any) -> bool:
    tags = getattr(step, "__sklearn_tags__", None)
    return True if tags is None else bool(tags().requires_fit)


def refuse_fitted_state(estimator: Any, what: str = "preprocessing") -> None:
    """Refuse an estimator that carries a fitted one where cloning does not reset it.

    For example `FunctionTransformer(scaler.transform)` with a fitted scaler, or a FrozenEstimator.
    """
    if not hasattr(estimator, "get_params"):
        return
    fresh = clone(estimator)
    for name, found in (*_carried(fresh), *_hidden(estimator)):
        if isinstance(found, BaseEstimator) and _has_learned(found):
            raise ValueError(
                f"{what} carries a fitted {type(found).__name__} in {name!r}, which may have seen "
                "the bound set; give it unfitted"
            )


def _carried(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield the estimator and everything that its parameters refer to, by their names."""
    for name, value in {"itself": estimator, **estimator.get_params(deep=True)}.items():
        yield from ((name, found) for found in _reachable(value))


def _hidden(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Yield what parameters refer to but are not: clones need not reset it."""
    own = {"itself": estimator, **estimator.get_params(deep=True)}
    return ((name, found) for name, found in _carried(estimator) if found is not own[name])


def _has_learned(estimator: Any) -> bool:
    if isinstance(estimator, FrozenEstimator):
        return True
    return bool(_requires_fit(estimator) and _is_fitted(estimator))


def _reachable(value: Any) -> Iterator[Any]:
    """Yield a parameter and what a callable or container in it refers to."""
    yield value
    if isinstance(value, functools.partial | dict | list | tuple):
        for part in references(value):
            yield from _reachable(part)
    elif callable(value) and not isinstance(value, type | BaseEstimator):
        yield from references(value)
