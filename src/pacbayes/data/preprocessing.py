"""What scikit-learn does to examples: fitted to their own part alone, or refused."""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable, Iterator
from numbers import Real
from types import FrameType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _is_fitted, check_is_fitted
from torch import Tensor

from pacbayes.data.encoding import Encoding, fit_encoding
from pacbayes.data.foreign import give, references
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.sample import NoSampleError
from pacbayes.data.values import columns_of, is_framed, is_missing, is_sparse, numbers_of

__all__ = [
    "Standardiser",
    "TableEncoder",
    "fitted",
    "fitted_before",
    "in_numbers",
    "is_searched",
    "refuse_batch_effects",
    "refuse_fitted_state",
    "refuse_hidden_callers",
    "transformed",
]

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


_MISSING = "missing"


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as float64: numbers as they are, missing ones as NaN, categories one-hot.

    A column is numeric if all of its values, where fitted, are numbers, booleans, dates or missing;
    anything else that it holds later counts as missing. Any other column holds categories, of which
    a missing value is one. Categories that are rare in, or absent
    from, the table that was fitted share one indicator.

    Args:
        min_frequency: number of rows below which a category is rare.
        max_categories: most indicators of one column; the rarest categories share the last.
    """

    def __init__(self, min_frequency: int = 5, max_categories: int = 50) -> None:
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Find out which columns hold categories, and which categories."""
        columns = list(columns_of(X))
        self.numeric_ = [numbers_of(column) is not None for column in columns]
        self.n_features_in_ = len(columns)
        pairs = zip(columns, self.numeric_, strict=True)
        words = [_words(column) for column, numeric in pairs if not numeric]
        self.one_hot_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=self.min_frequency,
            max_categories=self.max_categories,
            sparse_output=False,
        )
        if words:
            self.one_hot_.fit(np.stack(words, axis=1))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def transform(self, X: Any) -> Array:
        """Return the encoded table, (n, d)."""
        check_is_fitted(self)
        columns = list(columns_of(X))
        if len(columns) != self.n_features_in_:
            raise ValueError(f"X has {len(columns)} columns, but {self.n_features_in_} were fitted")
        parts, words = [], []
        for column, numeric in zip(columns, self.numeric_, strict=True):
            if numeric:
                numbers = numbers_of(column)
                parts.append((_where_possible(column) if numbers is None else numbers)[:, None])
            else:
                words.append(_words(column))
        if words:
            parts.append(self.one_hot_.transform(np.stack(words, axis=1)))
        return np.concatenate(parts, axis=1)


def _where_possible(column: Array) -> Array:
    """Return the numbers in a column, and NaN for everything else."""
    return np.array([float(v) if isinstance(v, Real) else np.nan for v in column])


def _words(column: Array) -> Array:
    for value in column:
        if not isinstance(value, Hashable):
            raise TypeError(f"argument must be a string or a number, got {value!r}")
    return np.array([_MISSING if is_missing(v) else str(v) for v in column], dtype=object)


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
