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

Within two standard deviations the fraction needs many terms. There it is used at p + L, and the
rest is an integral of the density f = −dP/dp, by Gauss's rule with N points:

    P(Bin(n, p) ≤ k) = ∫₀ᴸ f(p + s) ds + P(Bin(n, p + L) ≤ k),   f(t) ∝ tᵏ(1 − t)ⁿ⁻¹⁻ᵏ.

A rule that is exact up to degree 2N − 1 errs by at most (L/2)·(64/15)·M·ρ⁻²ᴺ/(1 − ρ⁻²), where
|f| ≤ M on the ellipse with foci at both ends whose semiaxes are (ρ ± 1/ρ)·L/4. There

    |f(t + is)| ≤ f(t)·exp(s²/2·(k/t² + (n − 1 − k)/(1 − t)²)),

and log f, which is concave, is below its tangent at p.

References: DiDonato & Morris 1992, equation 9; Loader 2000; Rabinowitz 1969 (Gauss's rule).
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
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


@dataclass(frozen=True)
class _Rule:
    """Gauss's rule for the integral of the density from p to p + L.

    Attributes:
        count: points.
        length: L, in standard deviations √(pq/n).
        rho: sum of the ellipse's semiaxes, in halves of L.
        terms: of the continued fraction at p + L.
    """

    count: int
    length: float
    rho: float
    terms: int

    @functools.cached_property
    def nodes(self) -> tuple[tuple[float, float], ...]:
        """Points in (0, 1) and their weights, which add up to 1."""
        import numpy as np

        x, w = np.polynomial.legendre.leggauss(self.count)
        return tuple(zip((0.5 + 0.5 * x).tolist(), (0.5 * w).tolist(), strict=True))

    @functools.cached_property
    def beyond(self) -> float:
        """How far the ellipse reaches beyond both ends, in standard deviations."""
        return self.length / 2 * ((self.rho + 1 / self.rho) / 2 - 1)

    @functools.cached_property
    def bulge(self) -> float:
        """s²/2 at the ellipse's largest imaginary part s, in variances."""
        return (self.length / 2 * (self.rho - 1 / self.rho) / 2) ** 2 / 2

    @functools.cached_property
    def factor(self) -> float:
        """The error for M = 1, in standard deviations."""
        rest = self.rho ** (-2 * self.count) / (1 - self.rho**-2)
        return self.length / 2 * 64 / 15 * rest


_QUICK = _Rule(9, 2.5, 6.3, 10)  # errs by less than 1e-8
_FINE = _Rule(10, 3.0, 6.0, 14)  # by less than 1e-10 near p = k/n
_NARROW, _BROAD = 8.0, 25.0  # standard deviations of X: few terms in all; made for the rules
_CLOSE, _NEAR = 0.4, 1.9  # deviations of p from k/n: made for the second rule, for both


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
    rate = errors / n
    if n <= _ORDINARY and 0.4 < delta < 0.6 and 600 < errors < n - 600:
        close = _stepped(errors, n, _cornish_fisher(errors + 1, n - errors, delta), delta)
        if close is not None:
            return close
    p = float(_scipy_quantile()(errors + 1, n - errors, delta))
    room = abs(p - rate)  # the result may be above the solution by a millionth of this
    if n <= _ORDINARY and 5e-7 * room >= _MARGIN / 10 * p > 0:
        p = p * (1 + _MARGIN) if 9e-7 * room >= _MARGIN * p else p + 5e-7 * room
        if p >= 1 or _below(errors, n, *p.as_integer_ratio(), delta, precise=False).shown:
            return min(1.0, p)
    if n <= _ORDINARY and 0 < p < 1 and (close := _stepped(errors, n, p, delta)) is not None:
        return close
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


def _stepped(k: int, n: int, p: float, delta: float) -> float | None:
    """Return a limit by one step from p beside it, or None if p is not close enough.

    The logarithms of both tails are concave in p. So a tangent is above that of P(X ≤ k); that of
    P(X > k) is below its tangent by at most (rate·step)², if p does not pass the mode of f.
    """
    if not 0 < p < 1:
        return None
    tail, goal, above = _compared(k, n, *p.as_integer_ratio(), delta)
    if (found := tail.quick(above=above)) is None:
        return None
    log, error, rate = found
    step = ((log - goal if above else goal - log) + error) / rate
    slack = 2 * rate * step**2 + (1e-7 + 2 * error) * abs(step) + 4 * math.ulp(p)
    limit = p + step + slack
    room = 5e-7 * abs(limit - k / n)
    close = rate * abs(step) < 1e-3 and slack + 2 * error / rate < room and 0 < limit < 1
    return limit if close and (above or limit * (n - 1) <= k) else None


def _cornish_fisher(a: int, b: int, delta: float) -> float:
    """Return about the 1 − δ quantile of Beta(a, b)."""
    c, z = a + b, NormalDist().inv_cdf(1 - delta)
    skewness = 2 * (b - a) / (c + 2) * math.sqrt((c + 1) / (a * b))
    kurtosis = 6 * ((a - b) ** 2 * (c + 1) - a * b * (c + 2)) / (a * b * (c + 2) * (c + 3))
    z += skewness * (z * z - 1) / 6 + kurtosis * (z**3 - 3 * z) / 24
    z -= skewness**2 * (2 * z**3 - 5 * z) / 36
    return a / c + z * math.sqrt(a * b / (c + 1)) / c


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
    tail, goal, above = _compared(k, n, num, den, delta)
    if not precise and (found := tail.quick(above=above)) is not None:
        log, error, rate = found
        gap = goal - log if above else log - goal
        shown = gap >= error
        if shown or tail.deviations < _CLOSE:
            return _Gap(shown, gap / rate, error / rate)
    terms = tail.usual_terms
    while True:
        even, odd = terms - terms % 2, terms | 1
        log, error, rate = tail.log(even if above else odd)
        gap = goal - log if above else log - goal
        missing = abs(log - tail.log(odd if above else even)[0]) if precise else 0.0
        if missing <= error or terms > tail.k:
            return _Gap(gap >= error, gap / rate, (error + missing) / rate)
        terms *= 2


def _compared(k: int, n: int, num: int, den: int, delta: float) -> tuple[_Tail, float, bool]:
    """Return the smaller tail at p, what its logarithm is compared with, and if it is P(X ≤ k)."""
    shift = n * num - k * den
    if shift > 0:
        return _tail(k, n, num, den, shift), math.log(delta), True
    return _tail(n - 1 - k, n, den - num, den, den - shift), math.log1p(-delta), False


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

    @property
    def usual_terms(self) -> int:
        """Terms that usually show an inequality."""
        return min(200, int(6 + 60 / (self.deviations**2 + 12 / self.spread)))

    def log(self, terms: int) -> tuple[float, float, float]:
        """Return the tail's logarithm, its rounding error, and minus its derivative by p."""
        if self.k == 0:
            return self.log_point, self.error, self.n / self.q
        terms = min(terms, self.k)
        whole = _fraction(self.n, self.k, self.p, self.q, self.d, terms)
        error = self.error + 10 * _EPSILON * (terms + 1)
        return self.log_point - math.log(whole), error, whole / (self.p * self.q)

    def quick(self, *, above: bool) -> tuple[float, float, float] | None:
        """Return the same in a few microseconds; None where the fraction is as fast.

        Args:
            above: the terms left out make the tail larger; else smaller.
        """
        if self.n > _ORDINARY:
            return None
        if self.spread < _NARROW:
            ratio, error = self._summed()
        elif self.spread > _BROAD and self.deviations < _NEAR:
            ratio, error = self._integrated(_FINE if self.deviations < _CLOSE else _QUICK, above)
        else:
            return None
        return self.log_point + math.log(ratio / (self.p * self.q)), self.error + error, 1 / ratio

    def _summed(self) -> tuple[float, float]:
        """Return the tail by its density, and the error of its logarithm, term by term."""
        term = total = 1.0
        i, others, odds, ratio = float(self.k), self.n - self.k + 1.0, self.q / self.p, 0.0
        while i > 0 and term > 1e-14 * total:
            ratio = i * odds / others  # falls with i
            term *= ratio
            total += term
            i, others = i - 1, others + 1
        left_out = term * ratio / (1 - ratio) if ratio < 1 else math.inf
        error = 8 * _EPSILON * (self.k + 1 - i) + (2 * left_out / total if i > 0 else 0.0)
        return total * self.q / (self.n - self.k), error

    def _integrated(self, rule: _Rule, above: bool) -> tuple[float, float]:
        """Return the same by the integral up to p + L, and by the fraction there."""
        p, q, k, others = self.p, self.q, self.k, self.n - 1 - self.k
        deviation, log1p, exp = self.spread / self.n, math.log1p, math.exp
        length, beyond = rule.length * deviation, rule.beyond * deviation
        up, down, mean = length / p, -length / q, 0.0
        for x, w in rule.nodes:
            mean += w * exp(k * log1p(up * x) + others * log1p(down * x))
        rise, fall, far, rest = k * log1p(up), others * log1p(down), p + length, q - length
        whole = _fraction(self.n, k, far, rest, self.d + self.n * length, rule.terms + (not above))
        ratio = length * mean + exp(rise + fall) * far * rest / whole
        low, high, slope = p - beyond, rest - beyond, k / p - others / q
        if low <= 0 or high <= 0:
            return 1.0, math.inf
        curvature = deviation**2 * (k / low**2 + others / high**2)
        most = exp(max(-slope * beyond, slope * (length + beyond)) + rule.bulge * curvature)
        error = rule.factor * deviation * most / ratio + _EPSILON * (200 + 8 * (rise - fall))
        return ratio, 1.1 * error


def _fraction(n: int, k: int, p: float, q: float, d: float, terms: int) -> float:
    """Return b₀ + a₁/(b₁ + …) with some terms."""
    m, a, b, shift, rest = float(n), float(n - k), k + 1.0, d + p, 0.0
    for i in map(float, range(terms, 0, -1)):  # floats alone are fast
        ai = a + i
        c = ai + i
        r = q / (c - 1.0)
        u = i * (b - i) * r
        below = i + u + ai * (shift + i * (1.0 + p)) / (c + 1.0)
        rest = (ai - 1.0) * (m + i) * r * u / (below + rest)
    return a * shift / (a + 1.0) + rest


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
