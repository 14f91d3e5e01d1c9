"""From the mean of sampled losses to an upper confidence value of their expectation."""

from __future__ import annotations

import math

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check_probability, upward

__all__ = ["kl_chernoff"]


def kl_chernoff(mean: float, draws: float, delta: float) -> float:
    r"""E[mean] ≤ kl⁻¹(mean, ln(1/δ)/N) with probability 1 − δ over N independent draws.

    The draws lie in [0, 1] and need not be identically distributed (Hoeffding 1963, Theorem 1).
    Where draws are weighted by w_b (batches sharing a draw), N = 1/max w_b: since
    w ↦ ln E[e^{swX}]/w grows with w, the sum is at least as concentrated as one of equal weights.
    """
    if not 0 <= mean <= 1:
        raise ValueError(f"mean must be in [0, 1], got {mean}")
    if not draws >= 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    check_probability(delta)
    return kl_inverse(mean, upward(-math.log(delta) / draws))
