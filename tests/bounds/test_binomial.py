"""The binomial tail is at most δ at the limit, and at least the probability at the quantile."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

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
