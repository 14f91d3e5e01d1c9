"""Labels as users give them to the classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import encodable

__all__ = ["classes_of"]


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the labels that occur, in order, and the index of each example's label among them.

    Raises:
        ValueError: labels have no order, or one is a text that no file can hold.
    """
    try:
        classes, index = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(f"labels must be all texts or all numbers, got {kinds}") from None
    for label in classes.tolist():
        if isinstance(label, str) and not encodable(label):
            raise ValueError(f"label {label!r} is not valid Unicode text; rename this class")
    return classes, index
