"""The Langford–Seeger bound."""

from __future__ import annotations

import math

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check, upward

__all__ = ["small_kl"]


def small_kl(risk: float, kl: float, n: int, delta: float) -> float:
    """Langford & Seeger 2001 with Maurer's 2004 constant.

    E_Q R ≤ kl⁻¹(E_Q R_S, (KL(Q|P) + ln(2√n/δ)) / n), for all Q at once, n ≥ 8.
    """
    check(risk, kl, n, delta, least_n=8)
    return kl_inverse(risk, upward((kl + math.log(2 * math.sqrt(n) / delta)) / n))
