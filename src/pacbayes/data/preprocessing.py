"""Preprocessing that is fitted to the prior's examples alone and treats each example by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import _safe_indexing
from torch import Tensor

from pacbayes.data.encoding import Encoding
from pacbayes.data.fitting import fit_encoding
from pacbayes.data.foreign import give
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.values import columns_of, is_framed, is_sparse, numbers_of

__all__ = ["Standardiser", "fitted", "in_numbers", "refuse_batch_effects", "transformed"]

Array = NDArray[Any]


def fitted(preprocessing: Any, own: Any, labels: Array | None = None) -> Any:
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
        return give(transformer.fit, own, labels)
    if transformer.__sklearn_tags__().requires_fit:
        raise ValueError(
            f"{type(transformer).__name__} must be fitted to the prior's part of the examples, "
            "which is empty; set prior_fraction, or scale by constants"
        )
    return transformer


def _unfitted(preprocessing: Any, own: Any) -> Any:
    if isinstance(preprocessing, str) and preprocessing == "auto":
        return Standardiser() if len(own) else None
    return None if preprocessing is None else clone(preprocessing)


def transformed(transformer: Any, x: Any) -> Tensor:
    """Return features for a network, (n, d) in float32."""
    done: Any = x if transformer is None else give(transformer.transform, x)
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
        dense = done.toarray() if is_sparse(done) else np.asarray(done)
        features = torch.tensor(dense.astype(np.float32))
    if not torch.isfinite(features).all():
        raise ValueError("a feature is NaN or too large for float32; scale it by a constant")
    return features


class Standardiser(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardise numbers as the features of a table are: (x − mean)/scale, of x in float32.

    Attributes:
        encoding_: the constants, as features.json keeps them.
        mean_, scale_: the same as arrays.
    """

    def fit(self, X: Array, y: Any = None) -> Standardiser:
        """Compute mean and standard deviation of every column."""
        x = np.asarray(X, np.float32)
        columns = (Column(str(i), Kind.NUMBER, column) for i, column in enumerate(x.T))
        return self._set(fit_encoding(Frame(tuple(columns)), range(len(x))))

    @classmethod
    def of(cls, encoding: Encoding) -> Standardiser:
        """Return the transformer that an encoding of numbers describes."""
        return cls()._set(encoding)

    def _set(self, encoding: Encoding) -> Standardiser:
        self.encoding_ = encoding
        codes: list[Any] = list(encoding.columns)
        self.mean_ = np.array([code.mean for code in codes])
        self.scale_ = np.array([code.scale for code in codes])
        return self

    def transform(self, X: Array) -> Array:
        """Return the standardised examples in float32."""
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            x = np.asarray(X, np.float32).astype(np.float64)
            scaled: Array = ((x - self.mean_) / self.scale_).astype(np.float32)
        return scaled


def refuse_batch_effects(transformer: Any, x: Any) -> None:
    """Raise ValueError if the result for an example depends on the others in its batch."""
    together = transformed(transformer, x)
    n = len(together)
    for i in range(0, n, max(1, n // 5)):
        alone = transformed(transformer, _safe_indexing(x, [i]))[0]
        if not torch.allclose(alone, together[i], rtol=1e-4):
            raise ValueError(
                f"{type(transformer).__name__} gives a different result for one example than for a "
                "batch; use preprocessing that treats each example by itself"
            )


def in_numbers(X: Any) -> Tensor:
    """Return examples as they came in numbers, (n, k), to look for copies in.

    Arrays of finite numbers stay as they are. Other columns become numbers as those of a table do.
    """
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and np.isfinite(X).all():
        return torch.tensor(X)
    table = is_framed(X) or np.ndim(X) == 2
    columns = columns_of(X) if table else iter([np.array(list(map(repr, X)), object)])
    numbered = (_as_column(str(i), column) for i, column in enumerate(columns))
    return torch.from_numpy(Frame(tuple(numbered)).as_numbers())


def _as_column(name: str, values: Array) -> Column:
    if (numbers := numbers_of(values)) is not None:
        return Column(name, Kind.NUMBER, numbers)
    words, places = np.unique(np.array(list(map(str, values))), return_inverse=True)
    return Column(name, Kind.CATEGORY, places.astype(np.int32), tuple(map(str, words)))
