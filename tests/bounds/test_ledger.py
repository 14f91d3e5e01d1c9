"""δ is spent once."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.bounds.ledger import Ledger


@given(st.floats(1e-300, 0.999), st.integers(1, 9))
def test_equal_parts_never_exceed_the_whole_and_waste_nothing(total, count):
    parts = Ledger.equal(total, *map(str, range(count))).parts.values()
    spent = sum(map(Fraction, parts))
    assert spent <= Fraction(total)
    assert spent >= Fraction(total) * (1 - Fraction(1, 2**50)) - Fraction(1, 2**1000)


@pytest.mark.parametrize(
    "parts", [{"a": 0.05, "b": 1e-18}, {"a": 0.03, "b": 0.03}, {"a": 0.05000000000000001}]
)
def test_overspending_is_impossible(parts):
    with pytest.raises(ValueError, match=r"spends more than δ = 0\.05"):
        Ledger(0.05, parts)


@pytest.mark.parametrize("parts", [{"a": 0.0}, {"a": -0.01, "b": 0.05}, {"a": float("nan")}])
def test_a_part_is_a_probability(parts):
    with pytest.raises(ValueError, match="delta must be in"):
        Ledger(0.05, parts)


def test_parts_have_names():
    assert Ledger.equal(0.1, "one", "two")["two"] == 0.05


def test_a_ledger_does_not_change():
    given = {"one": 0.05}
    ledger = Ledger(0.05, given)
    given["one"] = 1.0
    assert ledger["one"] == 0.05
    with pytest.raises(TypeError):
        ledger.parts["one"] = 1.0
