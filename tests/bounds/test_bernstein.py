"""Unexpected Bernstein: its formula, rounded up, and violated no more often than δ."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pacbayes.bounds import small_kl, unexpected_bernstein

mpmath.mp.dps = 60


@given(
    st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e5), st.integers(1, 10**7), st.floats(1e-9, 0.9)
)
def test_is_the_least_over_its_grid_rounded_up(risk, V, kl, n, delta):
    V = max(V, risk**2)
    k = max(1, math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta)))))

    def at(i):
        g = mpmath.mpf(2) ** -i
        price = (mpmath.mpf(kl) + mpmath.log(k / mpmath.mpf(delta))) / (n * g)
        return mpmath.mpf(risk) + (-mpmath.log(1 - g) - g) / g * mpmath.mpf(V) + price

    truth = min(at(i) for i in range(1, k + 1))
    found = unexpected_bernstein(risk, kl, n, delta, second_moment=V)
    assert min(1, truth) <= found <= min(1, truth * (1 + 1e-11) + 1e-14)


@pytest.mark.parametrize("n", [1, 8, 30, 200])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_exact_violation_probability_without_learning_is_at_most_delta(n, delta):
    bounds = [unexpected_bernstein(k / n, 0.0, n, delta) for k in range(n + 1)]
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.9):
        violated = sum(binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
        assert violated <= delta


def test_a_loss_that_varies_little_is_worth_something():
    little = unexpected_bernstein(0.3, 500, 60000, 0.05, second_moment=0.09)
    assert little < unexpected_bernstein(0.3, 500, 60000, 0.05)
    assert little < small_kl(0.3, 500, 60000, 0.05)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match=r"second_moment must be in \[risk², 1\], got 2"):
        unexpected_bernstein(0.1, 1, 10, 0.05, second_moment=2)
    with pytest.raises(ValueError, match="second_moment must be"):
        unexpected_bernstein(0.5, 1, 10, 0.05, second_moment=0.1)


@pytest.mark.parametrize("V", [0.0, 1e-6, 0.3, 1.0])
@pytest.mark.parametrize("n", [10**k for k in range(8, 16)])
def test_a_tiny_bound_is_neither_below_the_exact_one_nor_far_above(n, V):
    """−ln(1 − γ) − γ loses digits for small γ, which best suit large n."""
    for i in range(30):
        kl, delta = i / 7, 0.05
        k = math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta))))
        with mpmath.workdps(60):
            price = mpmath.mpf(kl) + mpmath.log(k / mpmath.mpf(delta))
            gammas = (mpmath.mpf(2) ** -i for i in range(1, k + 1))
            exact = min((-mpmath.log1p(-g) - g) / g * V + price / (n * g) for g in gammas)
            found = unexpected_bernstein(0.0, kl, n, delta, second_moment=V)
            assert exact <= found <= exact * (1 + mpmath.mpf("1e-6"))
