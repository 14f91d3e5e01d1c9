"""Probabilities from the scores of one network, which no certificate covers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

__all__ = ["likeliest_temperature"]

Array = NDArray[Any]


def likeliest_temperature(z: Array, index: Array) -> float:
    """Return the temperature at which scores fit the examples best (Guo et al. 2017).

    Args:
        z: scores, (n,) of the second of two classes or (n, k).
        index: the class of each example, (n,).
    """
    wide = np.stack([np.zeros_like(z), z], axis=1) if z.ndim == 1 else z
    size = float(np.abs(wide).mean()) or 1.0

    def surprise(log_t: float) -> float:
        log_p = log_softmax(wide / (size * np.exp(log_t)), axis=1)
        return -float(np.take_along_axis(log_p, index[:, None], 1).mean())

    return size * float(np.exp(minimize_scalar(surprise, bounds=(-4, 4), method="bounded").x))
