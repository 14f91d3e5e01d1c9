"""The binomial tail is at most δ at the limit, and at least the probability at the quantile."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from flint import arb, ctx

from pacbayes.bounds import binomial
from pacbayes.bounds.monte_carlo import clopper_pearson


def tail(k, n, p):
    """P(Bin(n, p) ≤ k) in exact fractions."""
    p = Fraction(p)
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.05, 0.5, 0.9, 1 - 2**-53])
def test_the_limit_is_the_least_float_or_within_a_millionth(n, delta):
    for k in range(n):
        p = binomial.upper_limit(k, n, delta)
        assert p == 1 or tail(k, n, p) <= Fraction(delta)
        below = p - 1e-6 * abs(p - k / n) - 2**-45 * p
        assert below <= 0 or tail(k, n, below) > Fraction(delta)


@pytest.mark.parametrize("off", [-3, 0, 3])
def test_the_quantile_is_exact_however_good_a_guess_scipy_makes(off, monkeypatch):
    guess = scipy.stats.binom.ppf
    monkeypatch.setattr(scipy.stats.binom, "ppf", lambda *given: guess(*given) + off)
    for n in (1, 3, 30):
        for p in (0.0, 1e-12, 0.02, 0.3, 0.5, 0.9, 0.97, 0.999):
            k = next(k for k in range(n + 1) if tail(k, n, p) >= Fraction(0.9))
            assert binomial.quantile(0.9, n, p) == k


@pytest.mark.parametrize("n", [1505, 10**12])
@pytest.mark.parametrize("integer", [np.int64, np.uint64])
def test_the_integers_of_numpy_do_not_overflow(integer, n):
    k = integer(n // 28)
    assert binomial.upper_limit(k, integer(n), 0.05) == binomial.upper_limit(int(k), n, 0.05)
    assert binomial.quantile(0.9, integer(n), 0.97) == binomial.quantile(0.9, n, 0.97)
    rate = np.float64(int(k) / n)
    assert clopper_pearson(rate, integer(n), 0.05) == clopper_pearson(float(rate), n, 0.05)


@pytest.mark.parametrize("n", [40, 3000, 10**5, 10**6])
def test_the_quick_tail_is_within_its_error_and_on_the_safe_side(n):
    """By the integral over p, or term by term; against Arb."""
    rng, kinds = np.random.default_rng(n), set()
    for _ in range(150):
        k = int(n ** rng.uniform(0, 1)) - 1
        k = n - 1 - k if rng.random() < 0.5 else k
        spread = math.sqrt(max(1, k) * max(1, n - k) / n)
        p = min(max((k + rng.uniform(-2, 2) * spread) / n, 1e-3 / n), 1 - 1e-3 / n)
        tail, _, above = binomial._compared(k, n, *p.as_integer_ratio(), 0.5)
        if tail.k == 0 or (found := tail.quick(above=above)) is None:
            continue
        log, error, rate = found
        with ctx.workprec(200):
            others, P = arb(n - k), 1 - arb(p)
            exact = P.beta_lower(others, arb(k + 1), regularized=True)
            beta = (others.lgamma() + arb(k + 1).lgamma() - arb(n + 1).lgamma()).exp()
            density = P ** (n - 1 - k) * arb(p) ** k / beta
            exact = exact if above else 1 - exact
            low, high = (float(exact.log() - log + sign * error) for sign in (-1, 1))
            assert float(density / exact / rate) == pytest.approx(1, abs=1e-7 + error)
        assert (low <= 0) if above else (high >= 0)
        assert low <= 0 <= high + 1e-7 if above else low - 1e-7 <= 0 <= high
        assert error < 3e-6
        kinds.add((tail.spread < binomial._NARROW, tail.deviations < binomial._CLOSE))
    assert len(kinds) == (4 if n == 10**6 else len(kinds))


@pytest.mark.parametrize("off", [0.0, 1e-5, -1e-5, 5e-4, 0.01])
def test_one_step_leads_from_a_good_guess_to_a_limit_that_holds(off):
    for k, n, delta in ((5, 40, 0.2), (35, 40, 0.2), (4000, 9000, 0.5), (4000, 9000, 0.9)):
        limit = binomial.upper_limit(k, n, delta)
        spread = math.sqrt(k * (n - k) / n) / n
        stepped = binomial._stepped(k, n, limit + off * spread, delta)
        assert stepped is not None or off > 1e-4
        if stepped is not None:
            assert off < 0.01
            with ctx.workprec(200):
                shown = (1 - arb(stepped)).beta_lower(arb(n - k), arb(k + 1), regularized=True)
                assert shown <= delta
            assert abs(stepped - limit) <= 2e-6 * abs(limit - k / n)
