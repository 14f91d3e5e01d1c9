"""When to leave an example unanswered: a threshold chosen without the bound set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["threshold_for"]

Array = NDArray[Any]


def threshold_for(confidence: Array, wrong: Array, target: float) -> float:
    """Return the least confidence at which answering errs at most as often as `target`.

    Args:
        confidence: of cross-validated predictions, (n,).
        wrong: whether each of them is wrong, (n,).
        target: largest error among the answered examples. If no threshold attains it, none is
            answered: the threshold is infinite.
    """
    order = np.argsort(-confidence, kind="stable")
    level = confidence[order]
    error = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    last_of_level = np.append(level[1:] != level[:-1], True)  # ties are answered together
    possible = np.flatnonzero(last_of_level & (error <= target))
    return float(level[possible[-1]]) if len(possible) else float("inf")
