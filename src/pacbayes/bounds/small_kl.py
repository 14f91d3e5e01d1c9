"""The small-kl bound and its relaxations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check, upward

__all__ = ["catoni_c", "mcallester", "quadratic", "small_kl", "split_kl", "thiemann"]


def small_kl(risk: float, kl: float, n: int, delta: float) -> float:
    """Small-kl bound.

    E_Q R ≤ kl⁻¹(E_Q R_S, (KL(Q|P) + ln(2√n/δ)) / n) for all Q at once. Requires n ≥ 8.

    Reference: Langford & Seeger 2001, with the constant of Maurer 2004.
    """
    return kl_inverse(risk, _complexity(risk, kl, n, delta))


def mcallester(risk: float, kl: float, n: int, delta: float) -> float:
    """McAllester's bound, which follows from small-kl by Pinsker's inequality.

    E_Q R ≤ E_Q R_S + √(c/2) with c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q at once. Requires n ≥ 8.

    Reference: McAllester 1999, with the constant of Maurer 2004.
    """
    c = _complexity(risk, kl, n, delta)
    return min(1.0, upward(risk + math.sqrt(c / 2)))


def quadratic(risk: float, kl: float, n: int, delta: float) -> float:
    """PAC-Bayes-quadratic bound, which follows from small-kl by the refined Pinsker inequality.

    E_Q R ≤ (√(E_Q R_S + c/2) + √(c/2))² with c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q at once.
    Requires n ≥ 8.

    Reference: Pérez-Ortiz et al. 2021, Theorem 1.
    """
    c = _complexity(risk, kl, n, delta)
    return min(1.0, upward((math.sqrt(risk + c / 2) + math.sqrt(c / 2)) ** 2))


def thiemann(risk: float, kl: float, n: int, delta: float, *, lam: float | None = None) -> float:
    """PAC-Bayes-λ bound (Thiemann's bound).

    E_Q R ≤ E_Q R_S/(1 − λ/2) + c/(λ(1 − λ/2)) with c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q and
    all λ ∈ (0, 2) at once. Requires n ≥ 8.

    Reference: Thiemann, Igel, Wintenberger & Seldin 2017, Theorem 3.

    Args:
        lam: λ. Default: the minimiser of the bound, which the theorem allows.
    """
    c = _complexity(risk, kl, n, delta)
    if lam is None:
        lam = 2 / (math.sqrt(2 * risk / c + 1) + 1)
    if not 0 < lam < 2:
        raise ValueError(f"lambda must be in (0, 2), got {lam}")
    return min(1.0, upward((risk + c / lam) / (1 - lam / 2)))


def catoni_c(risk: float, kl: float, n: int, delta: float, *, C: float | None = None) -> float:
    """Catoni's form with a free C, the objective of PBGNet.

    E_Q R ≤ [1 − exp(−C·E_Q R_S − c)] / (1 − e^{−C}) with c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q
    and all C > 0 at once. Requires n ≥ 8. These are the tangents of small-kl, which is the minimum
    over C.

    Reference: Germain et al. 2009.

    Args:
        C: free parameter. Default: the minimiser of the bound, which the theorem allows.
    """
    c = _complexity(risk, kl, n, delta)
    if C is None:
        p = kl_inverse(risk, c)
        odds = p * (1 - risk) / max(risk * (1 - p), 1e-300)
        C = min(max(math.log(max(odds, 1.0)), 1e-9), 600.0)
    if not (C > 0 and math.isfinite(C)):
        raise ValueError(f"C must be positive and finite, got {C}")
    return min(1.0, upward(math.expm1(-(C * risk + c)) / math.expm1(-C)))


def _complexity(risk: float, kl: float, n: int, delta: float) -> float:
    check(risk, kl, n, delta, least_n=8)
    return upward((kl + math.log(2 * math.sqrt(n) / delta)) / n)


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
