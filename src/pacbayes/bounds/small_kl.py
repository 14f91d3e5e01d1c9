"""The Langford–Seeger bound, and what follows from it by relaxing the kl."""

from __future__ import annotations

import math

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check, upward

__all__ = ["catoni_c", "mcallester", "quadratic", "small_kl", "thiemann"]


def small_kl(risk: float, kl: float, n: int, delta: float) -> float:
    """Langford & Seeger 2001 with Maurer's 2004 constant.

    E_Q R ≤ kl⁻¹(E_Q R_S, (KL(Q|P) + ln(2√n/δ)) / n), for all Q at once, n ≥ 8.
    """
    return kl_inverse(risk, _complexity(risk, kl, n, delta))


def mcallester(risk: float, kl: float, n: int, delta: float) -> float:
    """McAllester 1999 with Maurer's 2004 constant: small-kl through Pinsker's inequality.

    E_Q R ≤ E_Q R_S + √(c/2), c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q at once, n ≥ 8.
    """
    c = _complexity(risk, kl, n, delta)
    return min(1.0, upward(risk + math.sqrt(c / 2)))


def quadratic(risk: float, kl: float, n: int, delta: float) -> float:
    """PAC-Bayes-quadratic (Pérez-Ortiz et al. 2021, Theorem 1): the refined Pinsker inequality.

    E_Q R ≤ (√(E_Q R_S + c/2) + √(c/2))², c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q, n ≥ 8.
    """
    c = _complexity(risk, kl, n, delta)
    return min(1.0, upward((math.sqrt(risk + c / 2) + math.sqrt(c / 2)) ** 2))


def thiemann(risk: float, kl: float, n: int, delta: float, *, lam: float | None = None) -> float:
    """PAC-Bayes-λ (Thiemann, Igel, Wintenberger & Seldin 2017, Theorem 3).

    E_Q R ≤ E_Q R_S/(1 − λ/2) + c/(λ(1 − λ/2)), c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q and all
    λ ∈ (0, 2) at once, n ≥ 8.

    Args:
        lam: λ; the best one where not given, which the theorem allows.
    """
    c = _complexity(risk, kl, n, delta)
    if lam is None:
        lam = 2 / (math.sqrt(2 * risk / c + 1) + 1)
    if not 0 < lam < 2:
        raise ValueError(f"lambda must be in (0, 2), got {lam}")
    return min(1.0, upward((risk + c / lam) / (1 - lam / 2)))


def catoni_c(risk: float, kl: float, n: int, delta: float, *, C: float | None = None) -> float:
    """Catoni's form with a free C (Germain et al. 2009; the objective of PBGNet).

    E_Q R ≤ [1 − exp(−C·E_Q R_S − c)] / (1 − e^{−C}), c = (KL(Q|P) + ln(2√n/δ)) / n, for all Q and
    all C > 0 at once, n ≥ 8: the tangents of small-kl, which is its minimum over C.

    Args:
        C: the best one where not given.
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
