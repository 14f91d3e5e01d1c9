"""δ is spent once."""

from fractions import Fraction
from math import nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.bounds.ledger import Ledger, below, seed_share


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


@given(st.floats(1e-300, 0.999), st.integers(1, 9))
def test_shares_are_divided_among_priors_and_waste_nothing(total, priors):
    shares = {"a": Fraction(9, 10), "b": Fraction(1, 10)}
    ledger = Ledger.shared(total, shares, priors)
    assert len(ledger.parts) == 2 * priors
    for name, share in shares.items():
        whole = Fraction(total) * share / priors
        for which in ("", *(f"other prior {i}, " for i in range(1, priors))):
            part = ledger[which + name]
            assert Fraction(part) <= whole < Fraction(nextafter(part, 1.0))


def test_at_least_one_prior_is_paid_for():
    with pytest.raises(ValueError, match="priors must be at least 1, got 0"):
        Ledger.shared(0.05, {"a": Fraction(1)}, 0)


def test_the_shares_of_all_seeds_add_up_to_one():
    shares = [seed_share(seed) for seed in range(1000)]
    assert sum(shares) == 1 - Fraction(1, 1001)  # a telescoping sum
    assert shares[0] == Fraction(1, 2)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        seed_share(-1)


def test_parts_are_rounded_down_and_the_rest_is_somebody_elses():
    for value in (Fraction(1, 3), Fraction(1, 10), Fraction(2, 7)):
        assert Fraction(below(value)) <= value < Fraction(nextafter(below(value), 1.0))
    whole = Ledger.equal(0.025, "a", "b").within(0.05, "others")
    assert set(whole.parts) == {"a", "b", "others"}
    assert sum(map(Fraction, whole.parts.values())) <= Fraction(0.05)
    assert whole["others"] == pytest.approx(0.025)
