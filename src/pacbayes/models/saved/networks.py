"""Networks of this library among the candidates: packed into plain arrays, and back."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from sklearn.pipeline import Pipeline

from pacbayes.sklearn.classifier import PACBayesClassifier
from pacbayes.sklearn.packing import packed, unpacked

__all__ = ["as_plain", "from_plain"]

_MARK = "PACBayesClassifier"


def as_plain(model: Any) -> Any:
    """Return a fitted model with its network, or those of a pipeline's steps, as plain arrays."""
    return _mapped(model, lambda m: {_MARK: packed(m)} if isinstance(m, PACBayesClassifier) else m)


def from_plain(model: Any) -> Any:
    """Return the fitted model that `as_plain` was given."""
    return _mapped(model, lambda m: unpacked(m[_MARK]) if isinstance(m, dict) else m)


def _mapped(model: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(model, Pipeline):
        return change(model)
    pipeline = copy(model)
    pipeline.steps = [(name, _mapped(step, change)) for name, step in model.steps]
    return pipeline
