"""Examples as the preprocessing of a classifier takes them, when fitted and later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import indexable
from sklearn.utils.validation import _check_y, validate_data

from pacbayes.data.layout import Layout
from pacbayes.data.values import is_framed

__all__ = ["Input", "examples_of"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Input:
    """What a classifier was fitted to.

    Attributes:
        raw: examples reach a transformer of the user's as they come; otherwise they are numbers.
        layout: columns of a table that came raw; None for anything else.
        missing: numbers may be missing.
    """

    raw: bool = False
    layout: Layout | None = None
    missing: bool = False

    @property
    def numbers(self) -> dict[str, Any]:
        """How scikit-learn makes numbers of examples."""
        return {"dtype": np.float64, "ensure_all_finite": "allow-nan" if self.missing else True}

    def rows(self, model: Any, X: Any) -> Any:
        """Return examples as those that were fitted; refuse what does not match."""
        if not self.raw:
            return validate_data(model, X, reset=False, **self.numbers)
        validate_data(model, X, reset=False, skip_check_array=True)
        return X if self.layout is None else self.layout.rows(X)


def examples_of(model: Any, X: Any, y: Any) -> tuple[Any, Array, Input]:
    """Return examples and labels to fit, and what later ones are compared with.

    A transformer of the user's gets data frames, texts and lists as they come, and arrays of
    numbers in float64, as without one.
    """
    own = not (model.preprocessing is None or isinstance(model.preprocessing, str))
    if not own or issparse(X) or (not is_framed(X) and np.asarray(X).dtype.kind in "biufc"):
        given = Input(missing=own)
        return *validate_data(model, X, y, **given.numbers), given
    _, y = validate_data(model, X, y, skip_check_array=True)
    X, y = indexable(X, _check_y(y))
    return X, y, Input(raw=True, layout=Layout.of(X))
