"""Bounds for predictors other than the randomised one: majority votes, and networks once drawn.

A vote errs where at least half of Q errs. `tandem` is the probability that two independent draws
both err, `disagreement` that they differ; both are of pairs, so their KL is twice that of one.
"""

from __future__ import annotations

import math

from pacbayes.bounds.binary_kl import kl_inverse, kl_inverse_below
from pacbayes.bounds.domain import check, upward

__all__ = ["c_bound", "disintegrated", "first_order", "tandem"]


def first_order(risk: float, kl: float, n: int, delta: float) -> float:
    """L(vote) ≤ 2·E_Q R by Markov's inequality, E_Q R by small-kl; n ≥ 8.

    It holds for the vote of all of Q and for one of T fresh draws, whose share of errors has the
    same mean.
    """
    check(risk, kl, n, delta, least_n=8)
    c = upward((kl + math.log(2 * math.sqrt(n) / delta)) / n)
    return min(1.0, 2 * kl_inverse(risk, c))


def tandem(tandem_risk: float, kl: float, n: int, delta: float) -> float:
    """Masegosa, Lorenzen, Igel & Seldin 2020, Theorem 7: second order, by Markov on the square.

    L(vote) ≤ 4·kl⁻¹(E_{Q²} L_S(h, h'), (2KL(Q|P) + ln(2√n/δ)) / n), for all Q, n ≥ 8.
    """
    check(tandem_risk, kl, n, delta, least_n=8)
    c = upward((2 * kl + math.log(2 * math.sqrt(n) / delta)) / n)
    return min(1.0, 4 * kl_inverse(tandem_risk, c))


def c_bound(risk: float, disagreement: float, kl: float, n: int, delta: float) -> float:
    """The C-bound (Lacasse et al. 2007; Germain et al. 2015, PAC-Bound 1), n ≥ 8.

    L(vote) ≤ 1 − (1 − 2r)² / (1 − 2d), with r ≥ E_Q R by small-kl and d ≤ the disagreement by its
    lower counterpart at 2KL, half of δ each; one where r ≥ ½.
    """
    check(risk, kl, n, delta, least_n=8)
    check(disagreement, kl, n, delta, least_n=8)
    if disagreement > 0.5:
        raise ValueError(f"disagreement is at most 1/2, got {disagreement}")
    logs = math.log(4 * math.sqrt(n) / delta)
    r = kl_inverse(risk, upward((kl + logs) / n))
    d = kl_inverse_below(disagreement, upward((2 * kl + logs) / n))
    if r >= 0.5:
        return 1.0
    return min(1.0, max(0.0, upward(1 - (1 - 2 * r) ** 2 / (1 - 2 * d) + 1e-15)))


def disintegrated(
    risk: float, log_ratio: float, n: int, delta: float, *, networks: int = 1
) -> float:
    """One network drawn from Q and kept (Rivasplata et al. 2020, Theorem 1 (i)), n ≥ 8.

    With probability 1 − δ over the sample and the draw h ~ Q,

        R(h) ≤ kl⁻¹(R_S(h), (ln(dQ/dP)(h) + ln(2√n/δ)) / n).

    Args:
        risk: R_S(h), of the drawn network itself.
        log_ratio: ln(dQ/dP)(h), at the drawn weights; may be negative.
        networks: how many were drawn; each pays δ/N, so that the bound holds for all of them.
    """
    if not math.isfinite(log_ratio):
        raise ValueError(f"log_ratio must be finite, got {log_ratio}")
    if not (networks >= 1 and networks == int(networks)):
        raise ValueError(f"networks must be a whole number from 1 on, got {networks}")
    check(risk, 0.0, n, delta, least_n=8)
    total = log_ratio + math.log(2 * math.sqrt(n) * networks / delta)
    return kl_inverse(risk, upward(max(0.0, total + 1e-12) / n))
