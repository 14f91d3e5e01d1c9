"""Upper confidence bounds for the expectation of sampled losses.

Losses lie in [0, 1], and each bound holds with probability 1 − δ over the draws. `kl_chernoff`,
`bernstein` and `empirical_bernstein` need independent draws, which may have different
distributions. `stratified_bernstein` needs at least two draws from each distribution. `betting`
needs draws that share one conditional mean, for example the losses of examples chosen at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.bounds.binomial import upper_limit
from pacbayes.bounds.domain import LARGEST_N, check, check_probability, upward

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
    "unexpected_bernstein",
]


def kl_chernoff(mean: float, draws: float, delta: float) -> float:
    r"""Chernoff bound in kl form, for N independent draws in [0, 1].

        E[mean] ≤ kl⁻¹(mean, ln(1/δ)/N).

    The draws need not be identically distributed. If the draws have weights w_b (each batch shares
    one draw), N = 1/max w_b: since w ↦ ln E[e^{swX}]/w grows with w, the weighted sum is at least
    as concentrated as one with equal weights.

    Reference: Hoeffding 1963, Theorem 1.
    """
    _check(mean, draws, delta)
    return kl_inverse(mean, upward(-math.log(delta) / draws))


def bernstein(mean: float, variance: float, draws: float, delta: float) -> float:
    """Bernstein's inequality for N independent draws whose variance is known.

    E[mean] ≤ mean + ε, where ε is the positive root of Nε²/(2(v + ε/3)) = ln(1/δ).

    Reference: Boucheron, Lugosi & Massart 2013, Section 2.8.

    Args:
        variance: v, at least the mean variance of the N draws.
    """
    _check(mean, draws, delta)
    if not variance >= 0:
        raise ValueError(f"variance must be at least 0, got {variance}")
    L = upward(-math.log(delta) / draws)
    return min(1.0, upward(mean + L / 3 + math.sqrt(L * L / 9 + 2 * variance * L)))


def empirical_bernstein(mean: float, variance: float, draws: int, delta: float) -> float:
    """Empirical Bernstein bound for N ≥ 2 independent draws.

    E[mean] ≤ mean + √(2V ln(2/δ)/N) + 7 ln(2/δ)/(3(N − 1)), where V is the sample variance with
    divisor N − 1. The draws need not be identically distributed.

    Reference: Maurer & Pontil 2009, Theorem 11.
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
    r"""Bernstein's inequality with the variance *within* examples, estimated from pairs of draws.

    For two independent draws X, X' of one example, (X − X')² lies in [0, 1] and has expectation
    2σ². `kl_chernoff` at δ/2 bounds the mean of σ² from the mean over disjoint pairs, and
    `bernstein` uses the other δ/2. It pays off from about ten draws per example.

    Where examples of a block share a draw, X is the block's sum over the size of the largest block,
    f ≤ 1 for a smaller one, and counts are in units of that block. This holds since
    ln E[e^{sX}] ≤ f·ln(1 + E[X]/f·(e^s − 1)) for X ∈ [0, f], and (X − X')² ∈ [0, f²].

    Args:
        within: mean of ½(X − X')² over the pairs.
        pairs: number of pairs, the same for each example.
        draws: N, the number of all draws, the same for each example.
    """
    if not 0 <= within <= 0.5:
        raise ValueError(f"within must be in [0, 1/2], got {within}")
    variance = kl_chernoff(2 * within, pairs, delta / 2) / 2
    return bernstein(mean, upward(variance), draws, delta / 2)


def betting(draws: Sequence[float], delta: float) -> float:
    r"""One-sided betting bound for draws that all have the same mean μ given the past.

    A gambler who bets λ_t ∈ [0, ½] that the mean is below m ends with Π(1 + λ_t(m − X_t)), whose
    expectation is at most 1 if μ ≥ m. The bound is the smallest m at which this wealth reaches 1/δ.
    The bets λ_t = √(2 ln(1/δ) / (N·V_{t−1})) use the variance of earlier draws only.

    Reference: Waudby-Smith & Ramdas 2024, Theorem 3.
    """
    import numpy as np

    x = np.asarray(draws, np.float64)
    if not len(x):
        raise ValueError("draws must be at least one number, got none")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(f"draws must be in [0, 1], got {x.min():g} to {x.max():g}")
    check_probability(delta)
    bets = _bets(x, delta)
    low, high, goal = 0.0, 1.0, upward(-math.log(delta))
    while low < (m := low + 0.5 * (high - low)) < high:
        won = np.log1p(bets * (m - x))
        # Each logarithm errs by 5 roundings, and a pairwise sum of 10¹⁵ by at most 60.
        if float(won.sum() - 2.0**-46 * np.abs(won).sum()) >= goal:
            high = m
        else:
            low = m
    return high


def _bets(x: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    """Return λ_t from the draws before t and one made-up draw at ½ with variance ¼."""
    import numpy as np

    t = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    bets: NDArray[np.float64] = np.minimum(0.5, np.sqrt(-2 * math.log(delta) / (len(x) * before)))
    return bets


def clopper_pearson(risk: float, n: int, delta: float) -> float:
    """Clopper–Pearson upper bound for ⌈risk·n⌉ errors on n examples that the predictor never saw.

    It is the largest p with P(Bin(n, p) ≤ errors) ≥ δ.

    Reference: Clopper & Pearson 1934.
    """
    _check(risk, n, delta)
    if n > LARGEST_N:
        raise ValueError(f"n must be at most 10**15, got {n}")
    numerator, denominator = risk.as_integer_ratio()
    errors = -(-numerator * int(n) // denominator)
    errors -= errors > 0 and (errors - 1) / n == risk  # k/n may be rounded to above k/n
    return 1.0 if errors >= n else upper_limit(errors, n, delta)


def _check(mean: float, draws: float, delta: float) -> None:
    if not 0 <= mean <= 1:
        raise ValueError(f"mean must be in [0, 1], got {mean}")
    if not draws >= 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    check_probability(delta)


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
