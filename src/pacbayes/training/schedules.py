"""Learning rates as functions of what has happened: nothing to save, nothing to restore."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["halvings", "warm_cosine"]


def halvings(bounds: Sequence[float]) -> int:
    """How often the paper's rule has halved the rate: whenever an evaluation is not below the
    smaller of the two before it."""
    return sum(bounds[i] >= min(bounds[i - 2 : i]) for i in range(2, len(bounds)))


def warm_cosine(t: float, warm: float = 0.05) -> float:
    """Up in a straight line for the first twentieth of the run, down to zero along a cosine."""
    return min(1.0, (t + 1e-3) / warm) * 0.5 * (1 + math.cos(math.pi * t))
