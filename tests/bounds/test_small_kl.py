"""Langford–Seeger: rounded up, and violated no more often than δ."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pacbayes.bounds import binary_kl, small_kl

mpmath.mp.dps = 60


@given(st.floats(0, 1), st.floats(0, 1e5), st.integers(8, 10**7), st.floats(1e-9, 0.999))
def test_at_or_beyond_the_exact_inverse(risk, kl, n, delta):
    p = small_kl(risk, kl, n, delta)
    if p < 1:
        q, p = mpmath.mpf(risk), mpmath.mpf(p)
        value = q * mpmath.log(q / p) if q else mpmath.mpf(0)
        value += (1 - q) * mpmath.log((1 - q) / (1 - p)) if q < 1 else mpmath.mpf(0)
        bound = (mpmath.mpf(kl) + mpmath.log(2 * mpmath.sqrt(n) / mpmath.mpf(delta))) / n
        assert value >= bound


def test_is_the_root_of_its_equation():
    p = small_kl(0.05, 2000, 60000, 0.05)
    right = (2000 + math.log(2 * math.sqrt(60000) / 0.05)) / 60000
    assert binary_kl(0.05, p) == pytest.approx(right, rel=1e-9)


@pytest.mark.parametrize("n", [8, 30, 200])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_exact_violation_probability_without_learning_is_at_most_delta(n, delta):
    """With Q = P a single hypothesis of risk p, errors are binomial: enumerate them all."""
    bounds = [small_kl(k / n, 0.0, n, delta) for k in range(n + 1)]
    for p in (0.001, 0.01, 0.1, 0.3, 0.5, 0.9):
        violated = sum(binom.pmf(k, n, p) for k in range(n + 1) if bounds[k] < p)
        assert violated <= delta


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 1, 100, 0.05), "risk must be in"),
        ((math.nan, 1, 100, 0.05), "risk must be in"),
        ((0.1, -1, 100, 0.05), "kl must be finite"),
        ((0.1, math.inf, 100, 0.05), "kl must be finite"),
        ((0.1, 1, 7, 0.05), "n must be at least 8 and at most"),
        ((0.1, 1, 100, 0.0), "delta must be in"),
        ((0.1, 1, 100, 1.0), "delta must be in"),
    ],
)
def test_arguments_outside_the_theorem_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        small_kl(*arguments)
