"""Preprocessing that sees the prior's part of the examples alone, and each example by itself."""

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


def fitted(preprocessing: Any, own: Array) -> Any:
    """A clone of a scikit-learn transformer, fitted to the prior's examples; None for none.

    Args:
        preprocessing: a transformer, None, or `auto`, which standardises where there is a part to
            do it by.
        own: the prior's examples; where there are none, only what needs no fit is taken.
    """
    auto = isinstance(preprocessing, str) and preprocessing == "auto"
    if preprocessing is None or (auto and not len(own)):
        return None
    transformer = StandardScaler() if auto else clone(preprocessing)
    if len(own):
        return transformer.fit(own)
    if transformer.__sklearn_tags__().requires_fit:
        raise ValueError(
            f"{type(transformer).__name__} must be fitted to the prior's part of the examples, "
            "but there is none; give prior_fraction, or scale by constants"
        )
    return transformer


def transformed(transformer: Any, x: Array) -> Tensor:
    """Features as a network takes them, (n, d) in float32."""
    done: Any = x if transformer is None else transformer.transform(x)
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        dense = done.toarray() if issparse(done) else np.asarray(done)
        features = torch.tensor(dense.astype(np.float32))
    if not torch.isfinite(features).all():
        raise ValueError("a feature is too large for float32; scale it by a constant")
    return features


def refuse_batch_effects(transformer: Any, x: Array) -> None:
    """What one example becomes must not depend on the others it is transformed with."""
    together = transformed(transformer, x)
    for i in range(0, len(x), max(1, len(x) // 5)):
        if not torch.allclose(transformed(transformer, x[i : i + 1])[0], together[i], rtol=1e-4):
            raise ValueError(
                f"{type(transformer).__name__} transforms an example otherwise when it is alone; "
                "preprocessing must treat each by itself"
            )
