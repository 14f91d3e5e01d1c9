"""What a classifier passes on from the classifiers that it fits: methods, and tags of input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

__all__ = ["delegated", "take_input_tags"]


def delegated(name: str) -> Any:
    """Offer a method if the chosen estimator has it; before fitting, if the given one does."""

    def offered(self: Any) -> bool:
        if hasattr(self, "estimator_"):
            return hasattr(self.estimator_, name)
        return name == "predict_proba" if self.estimator is None else hasattr(self.estimator, name)

    return available_if(offered)


def take_input_tags(tags: Any, candidates: Iterable[Any]) -> None:
    """Set the tags of input that all candidates have."""
    inputs = [get_tags(_first(candidate)).input_tags for candidate in candidates]
    for name in ("allow_nan", "sparse", "string", "categorical"):
        setattr(tags.input_tags, name, all(getattr(tag, name) for tag in inputs))


def _first(model: Any) -> Any:
    """Return what receives the features: the first step of a pipeline, or the model itself."""
    return model[0] if isinstance(model, Pipeline) else model
