"""Losses of predictions, in [0, 1]: errors or costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificates.units import of_units

__all__ = ["Loss", "of_units"]

Array = NDArray[Any]


class Loss:
    """The error of a prediction, or its cost divided by the largest cost.

    Args:
        classes: all labels, in the order of the costs.
        costs: (k, k), the cost of the answer in column j to an example of the class in row i; None
            counts errors.

    Attributes:
        scale: the largest cost, 1 for errors.
        binary: whether each loss is 0 or 1, so that losses can be counted.
    """

    def __init__(self, classes: Array, costs: Any = None) -> None:
        self.classes, self.costs, self.scale, self.binary = classes, None, 1.0, True
        if costs is None:
            return
        matrix, k = np.asarray(costs, np.float64), len(classes)
        if matrix.shape != (k, k) or not (np.isfinite(matrix).all() and matrix.min() >= 0):
            raise ValueError(f"costs must be {k} × {k} numbers of at least 0, got {costs!r}")
        if not matrix.max() > 0:
            raise ValueError("costs must not all be 0")
        self.scale = float(matrix.max())
        self.costs = matrix / self.scale
        self.binary = bool(np.isin(matrix, (0.0, self.scale)).all())

    @property
    def noun(self) -> str:
        """What the certificate bounds."""
        return "error" if self.costs is None else "cost"

    def __call__(self, predicted: Array, y: Array) -> Array:
        """Return the loss of each prediction, (n,)."""
        if self.costs is None:
            return np.asarray(predicted != y, np.float64)
        place = {label: i for i, label in enumerate(self.classes.tolist())}
        pairs = zip(y.tolist(), predicted.tolist(), strict=True)
        if unknown := set(y.tolist()) - place.keys():
            raise ValueError(f"label {min(map(str, unknown))!r} has no row among the costs")
        worst = self.costs.max(1)  # of an answer that is no class
        losses = [
            self.costs[place[label], place[answer]] if answer in place else worst[place[label]]
            for label, answer in pairs
        ]
        return np.array(losses, np.float64)
