"""Numbers from a table of numbers, strings, booleans, dates and missing values."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from pacbayes.data.values import columns_of, is_missing, numbers_of

__all__ = ["TableEncoder"]

Array = NDArray[Any]
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
