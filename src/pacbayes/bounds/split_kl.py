"""A bound for losses with a few values, as tight as small-kl is for two values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check, upward

__all__ = ["split_kl"]


def split_kl(
    levels: Sequence[float], parts: Sequence[float], kl: float, n: int, delta: float
) -> float:
    """PAC-Bayes-split-kl bound.

    A loss ℓ with values b₀ < b₁ < … < b_K equals b₀ + Σ_j (b_j − b_{j−1})·1[ℓ ≥ b_j]. Hence

        E_Q L ≤ b₀ + Σ_j (b_j − b_{j−1})·kl⁻¹(m_j, (KL(Q|P) + ln(2K√n/δ)) / n)

    for all Q at once, where m_j = E_Q (1/n) Σ 1[ℓ ≥ b_j]. Requires n ≥ 8.

    Reference: Wu & Seldin 2022, Theorem 13.

    Args:
        levels: b₀, …, b_K.
        parts: m₁, …, m_K.

    Returns:
        A bound on the expected loss, in units of the loss and at most b_K.
    """
    steps = [b - a for a, b in pairwise(levels)]
    if not steps or min(steps) <= 0:
        raise ValueError(f"levels must be two or more increasing numbers, got {list(levels)}")
    if len(parts) != len(steps):
        raise ValueError(f"{len(levels)} levels need {len(steps)} parts, got {len(parts)}")
    if any(a < b for a, b in pairwise(parts)):
        raise ValueError(f"parts must not increase, got {list(parts)}")
    for part in parts:
        check(part, kl, n, delta, least_n=8)
    c = upward((kl + math.log(2 * len(steps) * math.sqrt(n) / delta)) / n)
    total = math.fsum(step * kl_inverse(part, c) for step, part in zip(steps, parts, strict=True))
    slack = 2.0**-46 * (abs(levels[0]) + total)
    return min(levels[-1], levels[0] + total + slack)
