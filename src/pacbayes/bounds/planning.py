"""Plan a certificate: the bound to expect from n examples, and the n that a bound needs.

A plan assumes the error that a model reaches after training on the examples outside the bound set.
The typical bound is the one at ⌈m·error⌉ errors on a bound set of m examples. The cautious bound is
the one at the 90 % quantile of the binomial number of errors: in nine of ten samples it is enough.

Held-out bounds (Clopper & Pearson) hold for a fixed model at the whole δ. The other bounds hold for
the randomised classifier at δ/2, because certificates spend the other half on sampling its risk.
The Monte-Carlo term itself, which shrinks with the number of draws, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pacbayes.bounds.binomial import quantile
from pacbayes.bounds.domain import check
from pacbayes.bounds.fixed_c import catoni_fixed
from pacbayes.bounds.monte_carlo import clopper_pearson
from pacbayes.bounds.small_kl import small_kl

__all__ = ["CAUTIOUS", "Expected", "Needed", "Plan", "Split"]

CAUTIOUS = 0.9  # quantile of the number of errors
_LEAST = 8  # examples in a bound set, for small-kl
_MOST = 10**9  # examples in all
_MOST_SEARCHED = 10**7  # examples in a bound set; the search would take minutes beyond
_Bound = Callable[[float, int], float]  # of the number of errors and the size of the bound set


@dataclass(frozen=True)
class Split:
    """A fraction of the examples for the bound, and the error after training on the rest."""

    fraction: float
    error: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise ValueError(f"a split must be between 0 and 1, got {self.fraction:g}")
        if not 0 <= self.error < 1:
            raise ValueError(f"an error must be at least 0 and below 1, got {self.error:g}")


@dataclass(frozen=True)
class Expected:
    """The bound to expect.

    Attributes:
        method: held-out, small-kl, catoni-fixed or data-free.
        fraction: fraction of the examples in the bound set; 1 for a data-free prior.
        error: error assumed.
        n: number of all examples.
        bound_set: number of examples in the bound set.
        typical: the bound at ⌈bound_set·error⌉ errors.
        cautious: the bound at the 90 % quantile of the number of errors.
    """

    method: str
    fraction: float
    error: float
    n: int
    bound_set: int
    typical: float
    cautious: float


@dataclass(frozen=True)
class Needed:
    """The number of examples that a bound needs.

    Attributes:
        method, fraction, error: as in `Expected`.
        bound: bound wanted.
        typical: smallest n whose typical bound is at most the one wanted. None if the bound set
            would have more than 10⁷ examples.
        cautious: the same for the cautious bound.
    """

    method: str
    fraction: float
    error: float
    bound: float
    typical: int | None
    cautious: int | None


@dataclass(frozen=True)
class _Case:
    """A method on a bound set."""

    method: str
    fraction: float
    error: float
    bound: _Bound

    def bound_set(self, n: int) -> int:
        return n - round((1 - self.fraction) * n)  # as training with --prior-fraction splits

    def typical_errors(self, m: int) -> int:
        return math.ceil(m * self.error - 1e-9)  # 7 for 100 · 0.07, which is just above 7 in floats

    def cautious_errors(self, m: int) -> int:
        return max(self.typical_errors(m), quantile(CAUTIOUS, m, self.error))


@dataclass(frozen=True)
class Plan:
    """What is assumed about a certificate before there is one.

    Attributes:
        splits: the splits to compare.
        kl: KL(Q|P) of a posterior near a learned prior, for small-kl and catoni-fixed.
        data_free_kl: KL(Q|P) under a data-free prior, whose bound set is all examples. It is paired
            with the error of the smallest split. None: no data-free prior is planned.
        delta: δ of the certificate.
    """

    splits: tuple[Split, ...]
    kl: float = 1.0
    data_free_kl: float | None = None
    delta: float = 0.05

    def __post_init__(self) -> None:
        if not self.splits:
            raise ValueError("a plan needs at least one split, got none")
        check(0.0, self.kl, 1, self.delta)
        check(0.0, self.data_free_kl or 0.0, 1, self.delta)

    def expected(self, n: int) -> tuple[Expected, ...]:
        """Return the bounds to expect from n examples, for every split and method."""
        if not 1 <= n <= _MOST:
            raise ValueError(f"n must be between 1 and {_MOST}, got {n}")
        return tuple(_expected(case, n) for case in self._cases())

    def needed(self, bound: float) -> tuple[Needed, ...]:
        """Return the smallest number of examples for a bound, for every split and method.

        Errors and KL are taken to stay the same for every number of examples.

        Args:
            bound: bound wanted, above every error assumed.
        """
        worst = max(split.error for split in self.splits)
        if not worst < bound < 1:
            raise ValueError(
                f"the bound must be above the error {worst:g} and below 1, got {bound:g}"
            )
        cases = list(self._cases())
        distinct = {(case.method, case.error): case for case in cases}
        sizes = {key: _sizes(case, bound) for key, case in distinct.items()}
        return tuple(_needed(case, bound, *sizes[case.method, case.error]) for case in cases)

    def _cases(self) -> Iterator[_Case]:
        for split in self.splits:
            for method, bound in _methods(split.error, self.kl, self.delta).items():
                yield _Case(method, split.fraction, split.error, bound)
        if self.data_free_kl is not None:
            error = min(self.splits, key=lambda split: split.fraction).error
            bound = _methods(error, self.data_free_kl, self.delta)["small-kl"]
            yield _Case("data-free", 1.0, error, bound)


def _methods(error: float, kl: float, delta: float) -> dict[str, _Bound]:
    half = delta / 2
    return {
        "held-out": lambda k, m: clopper_pearson(k / m, m, delta),
        "small-kl": lambda k, m: small_kl(k / m, kl, m, half),
        "catoni-fixed": lambda k, m: catoni_fixed(k / m, kl, m, half, guess=error),
    }


def _expected(case: _Case, n: int) -> Expected:
    m = case.bound_set(n)
    if m < _LEAST:
        raise ValueError(
            f"a split of {case.fraction:g} leaves {m} of {n} examples for the bound; "
            f"it needs at least {_LEAST}"
        )
    return Expected(
        case.method,
        case.fraction,
        case.error,
        n,
        m,
        typical=case.bound(case.typical_errors(m), m),
        cautious=case.bound(case.cautious_errors(m), m),
    )


def _needed(case: _Case, wanted: float, typical: int | None, cautious: int | None) -> Needed:
    return Needed(
        case.method,
        case.fraction,
        case.error,
        wanted,
        typical=typical and _examples(case, typical),
        cautious=cautious and _examples(case, cautious),
    )


def _sizes(case: _Case, wanted: float) -> tuple[int | None, int | None]:
    """Return the smallest bound sets whose typical and whose cautious bound is as wanted."""
    start = _LEAST if case.method == "held-out" else _least_at_fixed_risk(case, wanted)
    typical = _least(case.bound, case.typical_errors, wanted, start)
    return typical, typical and _least(case.bound, case.cautious_errors, wanted, typical)


def _least_at_fixed_risk(case: _Case, wanted: float) -> int:
    """Return a size below which even the error itself, not rounded up, is too large a risk."""
    return _least_for(lambda k, m: case.bound(case.error * m, m), 0, wanted, _LEAST)


def _least(bound: _Bound, errors: Callable[[int], int], wanted: float, start: int) -> int | None:
    """Return the smallest m ≥ start with bound(errors(m), m) ≤ wanted, or None beyond 10⁷.

    As a function of m this bound is a sawtooth: it jumps up with each further error. But errors(m)
    never falls, and for a fixed number of errors the bound falls with m. So no m below the least
    one for errors(m) will do, and going there again and again ends at the smallest m of all.
    """
    m = start
    while m <= _MOST_SEARCHED:
        least = _least_for(bound, errors(m), wanted, m)
        if least == m:
            return m
        m = least
    return None


def _least_for(bound: _Bound, k: int, wanted: float, start: int) -> int:
    """Return the smallest m ≥ start with bound(k, m) ≤ wanted, by doubling steps and bisection."""
    low, high, step = start - 1, start, 1
    while high <= _MOST_SEARCHED and bound(k, high) > wanted:
        low, high, step = high, high + step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if bound(k, middle) <= wanted:
            high = middle
        else:
            low = middle
    return high


def _examples(case: _Case, m: int) -> int:
    """Return the smallest n whose bound set has m examples."""
    n = max(m, math.floor((m - 0.5) / case.fraction) - 2)
    while case.bound_set(n) < m:
        n += 1
    return n
