"""A bound that uses the second moment of the loss."""

from __future__ import annotations

import math

from pacbayes.bounds.domain import check, upward

__all__ = ["unexpected_bernstein"]


def unexpected_bernstein(
    risk: float, kl: float, n: int, delta: float, *, second_moment: float | None = None
) -> float:
    """PAC-Bayes-unexpected-Bernstein bound.

    With probability 1 − δ, for all Q and all γ of a grid of k values at once,

        E_Q R ≤ E_Q R_S + (−ln(1 − γ) − γ)/γ · V + (KL(Q|P) + ln(k/δ)) / (nγ),

    where V = E_Q (1/n) Σ ℓ² and losses are at most 1. The grid is γ = ½, ¼, …, 2^−k with
    k = ⌈log₂(½√(n/ln(1/δ)))⌉. Return the smallest value on the grid.

    Reference: Mhammedi, Grünwald & Guedj 2019; Wu & Seldin 2022, Theorem 12.

    Args:
        second_moment: V. Default: the risk, which is V for the 0-1 loss.
    """
    check(risk, kl, n, delta)
    V = risk if second_moment is None else second_moment
    if not risk**2 * (1 - 1e-9) <= V <= 1:
        raise ValueError(f"second_moment must be in [risk², 1], got {V}")
    k = max(1, math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta)))))

    def at(gamma: float) -> float:
        price = (kl + math.log(k / delta)) / (n * gamma)
        return risk + (-math.log1p(-gamma) - gamma) / gamma * V + price

    least = min(at(2.0**-i) for i in range(1, k + 1))
    slack = min(1e-15, 1e-9 * least + 1e-15 * V)  # −ln(1 − γ) − γ over γ errs by 2⁻⁵¹
    return min(1.0, upward(least + slack))
