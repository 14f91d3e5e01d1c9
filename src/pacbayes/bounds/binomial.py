r"""The tail of the binomial distribution in float64 with a bound on its error, and its inverse.

For d = np − k > 0 the lower tail has the continued fraction of DiDonato & Morris,

    P(Bin(n, p) ≤ k) = P(Bin(n, p) = k)·(n − k)p / (b₀ + a₁/(b₁ + a₂/(b₂ + …))),
    a_i = (n − k + i − 1)(n + i)·i(k + 1 − i)q² / (n − k + 2i − 1)²,
    b_i = i + i(k + 1 − i)q / (n − k + 2i − 1) + (n − k + i)(d + p + i(1 + p)) / (n − k + 2i + 1),

which ends, since a_{k+1} = 0. All a_i and b_i are positive and computed without cancellation, so
that each term adds a few units of rounding; and without its last terms the fraction is at least the
tail if an even number is left, at most the tail if an odd one is. The probability of k comes from
Loader's form, which has no cancellation either. For d ≤ 0 the complement is the lower tail of the
n − X others, whose chance is q.

References: DiDonato & Morris 1992, equation 9; Loader 2000.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["quantile", "upper_limit"]

_EPSILON = sys.float_info.epsilon
_MARGIN = 1e-9  # above the relative error of scipy's quantile up to n = 10⁶, 4e-11
_ORDINARY = 10**6
_TAU = 2 * math.pi
_STIRLING = (  # ln n! less Stirling's formula, below where its series is exact enough
    0.0,
    *(
        math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(_TAU)
        for n in range(1, 16)
    ),
)


class _Gap(NamedTuple):
    """How far P(Bin(n, p) ≤ k) is below δ.

    Attributes:
        shown: whether it is, beyond all errors.
        beyond: how far p is above the solution of P(Bin(n, p) ≤ k) = δ, by the tangent.
        error: of `beyond`, from rounding and the terms left out.
    """

    shown: bool
    beyond: float
    error: float


def upper_limit(errors: int, n: int, delta: float) -> float:
    """Return the p with P(Bin(n, p) ≤ errors) = δ, rounded up, for 0 ≤ errors < n ≤ 10¹⁵.

    The tail at the result is shown to be at most δ. The search starts at scipy's quantile, which is
    not trusted, and follows the tangents of the logarithm of the tail.
    """
    errors, n = int(errors), int(n)  # those of NumPy overflow
    rate, p = errors / n, float(_scipy_quantile()(errors + 1, n - errors, delta))
    room = abs(p - rate)  # the result may be above the solution by a millionth of this
    if n <= _ORDINARY and 5e-7 * room >= _MARGIN / 10 * p > 0:
        p = p * (1 + _MARGIN) if 9e-7 * room >= _MARGIN * p else p + 5e-7 * room
        if p >= 1 or _below(errors, n, *p.as_integer_ratio(), delta, precise=False).shown:
            return min(1.0, p)
    if not 0 < p < 1:
        p = (errors + 1) / (n + 1)
    step = 0.0
    while p < 1:
        gap = _below(errors, n, *p.as_integer_ratio(), delta)
        least = 2 * gap.error + math.ulp(p)
        if gap.shown and gap.beyond <= 5e-7 * abs(p - rate) + 2 * (step + least):
            return p
        step = 2 * step + least
        p = min(max(p - gap.beyond + step, p / 16), 0.5 * (p + 1))
    return 1.0


def quantile(probability: float, n: int, p: float) -> int:
    """Return the smallest k for which P(Bin(n, p) ≤ k) is shown to be at least a probability."""
    from scipy.stats import binom

    n, (num, den), rest = int(n), p.as_integer_ratio(), 1 - probability

    def enough(k: int) -> bool:
        if not 0 <= k < n or num == 0:
            return k >= 0
        return _below(n - 1 - k, n, den - num, den, rest).shown

    k = int(binom.ppf(probability, n, p))
    while enough(k - 1):
        k -= 1
    while not enough(k):
        k += 1
    return k


@functools.cache
def _scipy_quantile() -> Callable[[float, float, float], float]:
    from scipy.special import betainccinv  # costs 0.2 s, and a microsecond each time again

    found: Callable[[float, float, float], float] = betainccinv
    return found


def _below(k: int, n: int, num: int, den: int, delta: float, *, precise: bool = True) -> _Gap:
    """Compare P(Bin(n, num/den) ≤ k) with δ, 0 ≤ k < n, on the side where the tail is small.

    Args:
        precise: take as many terms as `beyond` needs; else as many as usually show the inequality.
    """
    shift = n * num - k * den
    if above := shift > 0:
        tail, goal = _tail(k, n, num, den, shift), math.log(delta)
    else:
        tail = _tail(n - 1 - k, n, den - num, den, den - shift)
        goal = math.log1p(-delta)
    terms = min(200, int(6 + 60 / (tail.deviations**2 + 12 / tail.spread)))
    while True:
        even, odd = terms - terms % 2, terms | 1
        log, error, rate = tail.log(even if above else odd)
        gap = goal - log if above else log - goal
        missing = abs(log - tail.log(odd if above else even)[0]) if precise else 0.0
        if missing <= error or terms > tail.k:
            return _Gap(gap >= error, gap / rate, (error + missing) / rate)
        terms *= 2


class _Tail(NamedTuple):
    """P(Bin(n, p) ≤ k) for d = np − k > 0."""

    n: int
    k: int
    p: float
    q: float
    d: float
    log_point: float  # ln P(Bin(n, p) = k)·(n − k)p
    error: float  # bound on its rounding error
    spread: float  # standard deviation √(npq)
    deviations: float  # d / spread

    def log(self, terms: int) -> tuple[float, float, float]:
        """Return the tail's logarithm, its rounding error, and minus its derivative by p."""
        if self.k == 0:
            return self.log_point, self.error, self.n / self.q
        terms = min(terms, self.k)
        n, p, q = float(self.n), self.p, self.q
        a, b, shift, rest = n - self.k, self.k + 1.0, self.d + p, 0.0
        for i in map(float, range(terms, 0, -1)):  # floats alone are fast
            ai = a + i
            c = ai + i
            r = q / (c - 1.0)
            u = i * (b - i) * r
            below = i + u + ai * (shift + i * (1.0 + p)) / (c + 1.0)
            rest = (ai - 1.0) * (n + i) * r * u / (below + rest)
        whole = a * shift / (a + 1.0) + rest
        error = self.error + 10 * _EPSILON * (terms + 1)
        return self.log_point - math.log(whole), error, whole / (p * q)


def _tail(k: int, n: int, num: int, den: int, shift: int) -> _Tail:
    """Prepare P(Bin(n, num/den) ≤ k), where shift = n·num − k·den > 0.

    Quotients of integers are rounded once.
    """
    p, q, d = num / den, (den - num) / den, shift / den
    if k == 0:
        log = n * (math.log(q) if p > 0.5 else math.log1p(-p))
        return _Tail(n, k, p, q, d, log, -8 * _EPSILON * log, 1.0, math.inf)
    others = n * (den - num) / den
    first, second = k * math.log1p(d / k), (n - k) * math.log1p(d / others)
    log = first - second + _stirling(n) - _stirling(k) - _stirling(n - k)
    log += 0.5 * math.log(n / _TAU * ((n - k) / k)) + math.log(p)
    error = _EPSILON * (4 * (first + second) + 2000)
    spread = math.sqrt((k + d) * q)
    return _Tail(n, k, p, q, d, log, error, spread, d / spread)


def _stirling(n: int) -> float:
    """Return ln n! − ln(√(2πn)·(n/e)ⁿ) with an error below 4e-14."""
    if n < 16:
        return _STIRLING[n]
    r = 1 / (n * n)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r / 1680))) / n
