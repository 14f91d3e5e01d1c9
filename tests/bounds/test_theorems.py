"""Every theorem under its name, with its own options and no others."""

from typing import get_args

import mpmath
import pytest

from pacbayes import bounds
from pacbayes.bounds.theorems import THEOREMS, BoundName, CertificateBound, calculate

NUMBERS = (0.05, 300.0, 6000, 0.02)
FREE = {
    "c-bound": {"disagreement": 0.06},
    "split-kl": {"levels": [0, 1], "parts": [0.05]},
    "catoni-fixed": {"guess": 0.04},
    "disintegrated-fixed": {"C": 0.8},
}
EXPECTED = {
    "small-kl": bounds.small_kl(*NUMBERS),
    "catoni": bounds.catoni(*NUMBERS),
    "catoni-c": bounds.catoni_c(*NUMBERS),
    "mcallester": bounds.mcallester(*NUMBERS),
    "quadratic": bounds.quadratic(*NUMBERS),
    "thiemann": bounds.thiemann(*NUMBERS),
    "unexpected-bernstein": bounds.unexpected_bernstein(*NUMBERS),
    "split-kl": bounds.split_kl([0, 1], [0.05], 300.0, 6000, 0.02),
    "first-order": bounds.first_order(*NUMBERS),
    "tandem": bounds.tandem(*NUMBERS),
    "c-bound": bounds.c_bound(0.05, 0.06, 300.0, 6000, 0.02),
    "disintegrated": bounds.disintegrated(*NUMBERS),
    "catoni-fixed": bounds.catoni_fixed(*NUMBERS, guess=0.04),
    "disintegrated-fixed": bounds.disintegrated_fixed(*NUMBERS, C=0.8),
    "held-out": bounds.clopper_pearson(0.05, 6000, 0.02),
    "held-out-mean": bounds.kl_chernoff(0.05, 6000, 0.02),
}


@pytest.mark.parametrize("name", THEOREMS)
def test_each_name_is_its_theorem(name):
    numbers = NUMBERS if THEOREMS[name].has_kl else (0.05, 0.0, *NUMBERS[2:])
    result = calculate(name, *numbers, FREE.get(name, {}))
    assert result["bound"] == EXPECTED[name]
    assert (result["name"], result["kl"], result["n"], result["delta"]) == (name, *numbers[1:])


@pytest.mark.parametrize(
    ("name", "free", "value"),
    [
        ("catoni", {"lambda": 900.0, "alpha": 1.1}, bounds.catoni(*NUMBERS, lam=900.0, alpha=1.1)),
        ("catoni-c", {"C": 0.7}, bounds.catoni_c(*NUMBERS, C=0.7)),
        ("thiemann", {"lambda": 0.3}, bounds.thiemann(*NUMBERS, lam=0.3)),
        (
            "unexpected-bernstein",
            {"second-moment": 0.01},
            bounds.unexpected_bernstein(*NUMBERS, second_moment=0.01),
        ),
        ("disintegrated", {"networks": 5}, bounds.disintegrated(*NUMBERS, networks=5)),
        ("catoni-fixed", {"C": 0.7}, bounds.catoni_fixed(*NUMBERS, C=0.7)),
        (
            "disintegrated-fixed",
            {"guess": 0.06, "networks": 3},
            bounds.disintegrated_fixed(*NUMBERS, guess=0.06, networks=3),
        ),
    ],
)
def test_what_a_theorem_leaves_free_can_be_given(name, free, value):
    assert calculate(name, *NUMBERS, free)["bound"] == value


@pytest.mark.parametrize(
    ("name", "risk", "free", "message"),
    [
        ("small-kl", 0.1, {"lambda": 3.0}, "--lambda does not belong to small-kl"),
        ("c-bound", 0.1, {}, "c-bound needs --disagreement"),
        ("split-kl", None, {"levels": [0, 1]}, "split-kl needs --parts"),
        ("tandem", None, {}, "tandem needs --risk"),
        ("catoni-fixed", None, {}, "catoni-fixed needs --risk"),
        ("disintegrated-fixed", None, {"C": 1.0}, "disintegrated-fixed needs --risk"),
        ("small-kl", 0.1, {"guess": 0.1}, "--guess does not belong to small-kl"),
    ],
)
def test_what_does_not_fit_is_refused(name, risk, free, message):
    with pytest.raises(ValueError, match=message):
        calculate(name, risk, 1.0, 100, 0.05, free)


def test_held_out_is_the_exact_binomial_tail_and_needs_no_kl():
    bound = calculate("held-out", 0.05, None, 1000, 0.05, {})["bound"]
    with mpmath.workdps(40):
        p = mpmath.mpf(bound)
        tail = sum(mpmath.binomial(1000, k) * p**k * (1 - p) ** (1000 - k) for k in range(51))
    assert 0.05 * (1 - 1e-7) < tail <= 0.05


@pytest.mark.parametrize(
    ("name", "kl", "message"),
    [
        ("held-out", 1.0, "held-out is for a predictor fixed beforehand, whose KL is 0, got 1.0"),
        ("held-out", float("nan"), "kl must be finite"),
        ("small-kl", None, "small-kl needs --kl"),
    ],
)
def test_a_kl_is_given_exactly_where_there_is_a_posterior(name, kl, message):
    with pytest.raises(ValueError, match=message):
        calculate(name, 0.05, kl, 1000, 0.05, {})


def test_certify_offers_every_theorem_that_certifies_and_the_choice_among_them():
    certified = {name for name, theorem in THEOREMS.items() if theorem.certifies}
    assert set(get_args(CertificateBound)) == certified | {"best-of"}
    one_network = {"disintegrated", "disintegrated-fixed", "held-out", "held-out-mean"}
    assert set(get_args(BoundName)) == certified - one_network | {"best-of"}


@pytest.mark.parametrize("name", [name for name, t in THEOREMS.items() if not t.needed[1:]])
def test_with_endless_data_a_bound_is_the_risk_times_its_factor(name):
    if name == "split-kl":
        pytest.skip("takes a risk for every level")
    bound = THEOREMS[name].bound(0.01, 0.0, 10**15, 0.05)
    assert bound == pytest.approx(THEOREMS[name].factor * 0.01, rel=0.01)
