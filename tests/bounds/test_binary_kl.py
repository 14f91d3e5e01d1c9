"""The inverse is never below the exact one and hardly above it."""

import math

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pacbayes.bounds import binary_kl, kl_inverse

mpmath.mp.dps = 60


def exact_kl(q, p):
    q, p = mpmath.mpf(q), mpmath.mpf(p)
    first = q * mpmath.log(q / p) if q else mpmath.mpf(0)
    second = (1 - q) * mpmath.log((1 - q) / (1 - p)) if q < 1 else mpmath.mpf(0)
    return first + second


@given(st.floats(0, 1), st.floats(1e-12, 1 - 1e-12))
def test_binary_kl_agrees_with_high_precision(q, p):
    assert binary_kl(q, p) == pytest.approx(float(exact_kl(q, p)), rel=1e-9, abs=1e-14)


@settings(max_examples=500)
@given(st.floats(0, 1), st.floats(1e-12, 20))
@example(0.0, 1e-6)
@example(0.05, 0.04)
@example(1 - 2**-53, 1e-3)
@example(2**-1074, 1e-3)
def test_inverse_is_an_upper_end_and_tight(q, c):
    p = kl_inverse(q, c)
    assert q <= p <= 1
    if p < 1:
        assert exact_kl(q, p) >= mpmath.mpf(c)  # at or beyond the true inverse
    below = p - 1e-7 * (p - q) - 4e-15
    if below > q and c >= 1e-6:  # a smaller c drowns in the roundings of kl, which are paid for
        assert exact_kl(q, below) < mpmath.mpf(c)  # and not far beyond it


def test_inverse_at_zero_risk_has_a_closed_form():
    for c in (1e-6, 0.01, 1.0, 5.0):
        assert kl_inverse(0.0, c) == pytest.approx(-math.expm1(-c), rel=1e-9)
        assert kl_inverse(0.0, c) >= -mpmath.expm1(-mpmath.mpf(c))


def test_ends_of_the_range():
    assert binary_kl(0.5, 0.0) == math.inf
    assert kl_inverse(1.0, 0.1) == 1.0
    assert kl_inverse(0.3, math.inf) == 1.0
    assert kl_inverse(0.3, 0.0) == pytest.approx(0.3, abs=1e-7)


@pytest.mark.parametrize(
    ("q", "c"), [(-0.1, 1), (1.1, 1), (math.nan, 1), (0.5, -1), (0.5, math.nan)]
)
def test_nonsense_is_refused(q, c):
    with pytest.raises(ValueError, match="must be"):
        kl_inverse(q, c)
