"""Bounds for the majority vote and for one network drawn from Q.

The vote errs only where at least half of Q errs. The tandem risk is the probability that two
independent draws both err; the disagreement is the probability that they differ. Both concern pairs
of draws, so the KL counts twice.
"""

from __future__ import annotations

import math

from pacbayes.bounds.binary_kl import kl_inverse, kl_inverse_below
from pacbayes.bounds.domain import check, upward

__all__ = ["c_bound", "disintegrated", "first_order", "tandem"]


def first_order(risk: float, kl: float, n: int, delta: float) -> float:
    """First-order bound for the majority vote.

    L(vote) ≤ 2·E_Q R by Markov's inequality, with E_Q R bounded by small-kl. Requires n ≥ 8.

    It holds for the vote of all of Q and for the vote of T fresh draws: the share of draws that err
    has the same expectation.
    """
    check(risk, kl, n, delta, least_n=8)
    c = upward((kl + math.log(2 * math.sqrt(n) / delta)) / n)
    return min(1.0, 2 * kl_inverse(risk, c))


def tandem(tandem_risk: float, kl: float, n: int, delta: float) -> float:
    """Tandem bound for the majority vote: Markov's inequality to second order.

    L(vote) ≤ 4·kl⁻¹(E_{Q²} L_S(h, h'), (2KL(Q|P) + ln(2√n/δ)) / n) for all Q at once.
    Requires n ≥ 8.

    Reference: Masegosa, Lorenzen, Igel & Seldin 2020, Theorem 7.

    Args:
        tandem_risk: E_{Q²} L_S(h, h'), the share of examples on which both of two draws err.
    """
    check(tandem_risk, kl, n, delta, least_n=8)
    c = upward((2 * kl + math.log(2 * math.sqrt(n) / delta)) / n)
    return min(1.0, 4 * kl_inverse(tandem_risk, c))


def c_bound(risk: float, disagreement: float, kl: float, n: int, delta: float) -> float:
    """C-bound for the majority vote.

    L(vote) ≤ 1 − (1 − 2r)² / (1 − 2d), where r bounds E_Q R from above by small-kl and d bounds the
    disagreement from below by the lower kl inverse at 2KL, each at δ/2. The bound is 1 if r ≥ ½.
    Requires n ≥ 8.

    Reference: Lacasse et al. 2007; Germain et al. 2015, PAC-Bound 1.

    Args:
        disagreement: share of pairs of draws that differ on an example, at most 1/2.
    """
    check(risk, kl, n, delta, least_n=8)
    check(disagreement, kl, n, delta, least_n=8)
    if disagreement > 0.5:
        raise ValueError(f"disagreement must be at most 1/2, got {disagreement}")
    logs = math.log(4 * math.sqrt(n) / delta)
    r = kl_inverse(risk, upward((kl + logs) / n))
    d = kl_inverse_below(disagreement, upward((2 * kl + logs) / n))
    if r >= 0.5:
        return 1.0
    gain = 4 * r * (1 - r) - 2 * d + 2.0**-49 * (4 * r + 2 * d)  # (1 − 2d) − (1 − 2r)², rounded up
    return min(1.0, max(0.0, upward(gain / (1 - 2 * d))))


def disintegrated(
    risk: float, log_ratio: float, n: int, delta: float, *, networks: int = 1
) -> float:
    """Disintegrated bound for one network drawn from Q.

    With probability 1 − δ over the sample and the draw h ~ Q,

        R(h) ≤ kl⁻¹(R_S(h), (ln(dQ/dP)(h) + ln(2√n/δ)) / n).

    Requires n ≥ 8.

    Reference: Rivasplata et al. 2020, Theorem 1 (i).

    Args:
        risk: R_S(h), the empirical risk of the drawn network.
        log_ratio: ln(dQ/dP)(h) at the drawn weights. May be negative.
        networks: number N of networks drawn. Each is charged δ/N, so the bound holds for all.
    """
    if not math.isfinite(log_ratio):
        raise ValueError(f"log_ratio must be finite, got {log_ratio}")
    if not (networks >= 1 and networks == int(networks)):
        raise ValueError(f"networks must be a whole number of at least 1, got {networks}")
    check(risk, 0.0, n, delta, least_n=8)
    odds = 2 * math.sqrt(n) * networks / delta
    log = (
        math.log(odds)
        if odds < math.inf
        else math.log(2 * math.sqrt(n) * networks) - math.log(delta)
    )
    total = log_ratio + log
    return kl_inverse(risk, upward(max(0.0, total + 1e-12) / n))
