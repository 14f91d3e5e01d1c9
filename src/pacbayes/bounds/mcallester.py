"""McAllester's bound, the simplest of all."""

from __future__ import annotations

import math

from pacbayes.bounds.domain import check, upward

__all__ = ["mcallester"]


def mcallester(risk: float, kl: float, n: int, delta: float) -> float:
    """McAllester 1999 with Maurer's 2004 constant: small-kl through Pinsker's inequality.

    E_Q R ≤ E_Q R_S + √((KL(Q|P) + ln(2√n/δ)) / 2n), for all Q at once, n ≥ 8.
    """
    check(risk, kl, n, delta, least_n=8)
    complexity = kl + math.log(2 * math.sqrt(n) / delta)
    return min(1.0, upward(risk + math.sqrt(complexity / (2 * n))))
