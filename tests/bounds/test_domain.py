"""Every rounding goes up."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pacbayes.bounds import percent_up
from pacbayes.bounds.domain import upward


def test_percentages_are_rounded_up():
    assert percent_up(0.13005) == "13.01 %"
    assert percent_up(0.13) == "13.01 %"  # the double 0.13 is a hair above 13 %
    assert percent_up(0.125) == "12.50 %"
    assert percent_up(1.0) == "100.00 %"
    assert percent_up(1e-9, 4) == "0.0001 %"


@given(st.floats(0, 1), st.integers(0, 6))
def test_what_is_printed_is_never_below_what_holds(value, digits):
    printed = Fraction(percent_up(value, digits).removesuffix(" %")) / 100
    assert Fraction(value) <= printed <= Fraction(value) + Fraction(1, 10 ** (digits + 2))


@given(st.floats(1e-300, 1e300))
def test_upward_is_above_by_more_than_a_dozen_roundings(x):
    assert Fraction(upward(x)) > Fraction(x) * (1 + 12 * Fraction(1, 2**52))
