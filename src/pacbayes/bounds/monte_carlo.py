"""From sampled losses to an upper confidence value of their expectation.

Every function takes losses in [0, 1] and holds with probability 1 − δ over the draws. `kl_chernoff`
and `empirical_bernstein` need independent draws, of whatever distributions; `stratified_bernstein`
needs several of each distribution; `betting` needs one distribution for all, as when each draw is
of an example chosen at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.domain import check_probability, upward

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "bernstein",
    "betting",
    "clopper_pearson",
    "empirical_bernstein",
    "kl_chernoff",
    "stratified_bernstein",
]


def kl_chernoff(mean: float, draws: float, delta: float) -> float:
    r"""E[mean] ≤ kl⁻¹(mean, ln(1/δ)/N) with probability 1 − δ over N independent draws.

    The draws lie in [0, 1] and need not be identically distributed (Hoeffding 1963, Theorem 1).
    Where draws are weighted by w_b (batches sharing a draw), N = 1/max w_b: since
    w ↦ ln E[e^{swX}]/w grows with w, the sum is at least as concentrated as one of equal weights.
    """
    _check(mean, draws, delta)
    return kl_inverse(mean, upward(-math.log(delta) / draws))


def bernstein(mean: float, variance: float, draws: float, delta: float) -> float:
    """E[mean] ≤ mean + ε, the root of Nε²/2(v + ε/3) = ln(1/δ) (Bernstein; Boucheron et al. §2.8).

    Args:
        variance: v, at least the mean of the N independent draws' variances.
    """
    _check(mean, draws, delta)
    if not variance >= 0:
        raise ValueError(f"variance must be at least 0, got {variance}")
    L = upward(-math.log(delta) / draws)
    return min(1.0, upward(mean + L / 3 + math.sqrt(L * L / 9 + 2 * variance * L)))


def empirical_bernstein(mean: float, variance: float, draws: int, delta: float) -> float:
    """Maurer & Pontil 2009, Theorem 11: independent draws, not necessarily of one distribution.

    E[mean] ≤ mean + √(2V ln(2/δ)/N) + 7 ln(2/δ)/(3(N − 1)), V the sample variance (over N − 1).
    """
    _check(mean, draws, delta)
    if draws < 2:
        raise ValueError(f"draws must be at least 2, got {draws}")
    if not variance >= 0:
        raise ValueError(f"variance must be at least 0, got {variance}")
    log = math.log(2 / delta)
    width = math.sqrt(2 * variance * log / draws) + 7 * log / (3 * (draws - 1))
    return min(1.0, upward(mean + width))


def stratified_bernstein(
    mean: float, within: float, pairs: float, draws: float, delta: float
) -> float:
    r"""Bernstein with the variance *within* examples, which is all that repeated draws have.

    Of two independent draws X, X' of one example, (X − X')² has expectation 2σ² and lies in [0, 1].
    Their mean over disjoint pairs bounds the mean variance from above by `kl_chernoff` at δ/2, and
    `bernstein` takes the other half. Worth it from some ten draws of each example on.

    Args:
        within: mean of ½(X − X')² over the pairs.
        pairs: how many there are, equally many for each example.
        draws: N, all draws; each example has equally many.
    """
    if not 0 <= within <= 0.5:
        raise ValueError(f"within must be in [0, 1/2], got {within}")
    variance = kl_chernoff(2 * within, pairs, delta / 2) / 2
    return bernstein(mean, upward(variance), draws, delta / 2)


def betting(draws: Sequence[float], delta: float) -> float:
    r"""Waudby-Smith & Ramdas 2024, Theorem 3, one side: draws whose mean given the past is one μ.

    A gambler who bets λ_t ∈ [0, ½] that the mean is below m has Π(1 + λ_t(m − X_t)) in the end, on
    average at most 1 if μ ≥ m; the bound is the least m at which 1/δ was won. Bets follow the
    variance so far, λ_t = √(2 ln(1/δ) / (N·V_{t−1})), so they are fixed before each draw.
    """
    import numpy as np

    x = np.asarray(draws, np.float64)
    if not len(x) or x.min() < 0 or x.max() > 1:
        raise ValueError("draws must be numbers in [0, 1], at least one")
    check_probability(delta)
    bets = _bets(x, delta)
    low, high, goal = 0.0, 1.0, upward(-math.log(delta)) + 1e-9
    while low < (m := low + 0.5 * (high - low)) < high:
        if float(np.log1p(bets * (m - x)).sum()) >= goal:
            high = m
        else:
            low = m
    return high


def _bets(x: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """λ_t from the draws before t, of which there is taken to be one more, at ½ with variance ¼."""
    import numpy as np

    t = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    bets: NDArray[np.float64] = np.minimum(0.5, np.sqrt(-2 * math.log(delta) / (len(x) * before)))
    return bets


def clopper_pearson(risk: float, n: int, delta: float) -> float:
    """The exact upper bound for a predictor that errs on ⌈risk·n⌉ of n examples it never saw."""
    from scipy.stats import beta

    _check(risk, n, delta)
    errors = math.ceil(risk * n)
    return 1.0 if errors >= n else min(1.0, upward(float(beta.isf(delta, errors + 1, n - errors))))


def _check(mean: float, draws: float, delta: float) -> None:
    if not 0 <= mean <= 1:
        raise ValueError(f"mean must be in [0, 1], got {mean}")
    if not draws >= 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    check_probability(delta)
