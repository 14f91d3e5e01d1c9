"""Preprocessing that is fitted to the prior's examples alone and treats each example by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from torch import Tensor

__all__ = ["fitted", "refuse_batch_effects", "transformed"]

Array = NDArray[Any]


def fitted(preprocessing: Any, own: Array, labels: Array | None = None) -> Any:
    """Return a clone of a scikit-learn transformer fitted to the prior's examples, or None.

    Args:
        preprocessing: a transformer, None, or `auto`: standardise if the prior has examples.
        own: the prior's examples; without any, only transformers that need no fit are accepted.
        labels: theirs, for supervised transformers.
    """
    transformer = _unfitted(preprocessing, own)
    if transformer is None:
        return None
    if len(own):
        return transformer.fit(own, labels)
    if transformer.__sklearn_tags__().requires_fit:
        raise ValueError(
            f"{type(transformer).__name__} must be fitted to the prior's part of the examples, "
            "which is empty; set prior_fraction, or scale by constants"
        )
    return transformer


def _unfitted(preprocessing: Any, own: Array) -> Any:
    if isinstance(preprocessing, str) and preprocessing == "auto":
        return StandardScaler() if len(own) else None
    return None if preprocessing is None else clone(preprocessing)


def transformed(transformer: Any, x: Array) -> Tensor:
    """Return features for a network, (n, d) in float32."""
    done: Any = x if transformer is None else transformer.transform(x)
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
        dense = done.toarray() if issparse(done) else np.asarray(done)
        features = torch.tensor(dense.astype(np.float32))
    if not torch.isfinite(features).all():
        raise ValueError("a feature is NaN or too large for float32; scale it by a constant")
    return features


def refuse_batch_effects(transformer: Any, x: Array) -> None:
    """Raise ValueError if the result for an example depends on the others in its batch."""
    together = transformed(transformer, x)
    for i in range(0, len(x), max(1, len(x) // 5)):
        if not torch.allclose(transformed(transformer, x[i : i + 1])[0], together[i], rtol=1e-4):
            raise ValueError(
                f"{type(transformer).__name__} gives a different result for one example than for a "
                "batch; use preprocessing that treats each example by itself"
            )
