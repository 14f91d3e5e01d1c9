"""The certificate of a fixed predictor: exact where losses are counted, kl-Chernoff elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.certificate import certify_losses

LEDGER = Ledger(0.05, {"a": 0.03, "b": 0.02})


def test_errors_are_counted_at_the_part_of_delta_that_is_theirs():
    losses = np.r_[np.ones(7), np.zeros(93)]
    c = certify_losses(losses, LEDGER, "b", binary=True)
    assert c.bound == bounds.clopper_pearson(0.07, 100, 0.02)
    assert (c.losses, c.n, c.risk, c.theorem, c.delta) == (7, 100, 0.07, "held-out", 0.05)
    assert c.ledger == {"a": 0.03, "b": 0.02}


def test_other_losses_take_the_chernoff_bound():
    losses = np.array([0.5, 0.0, 0.25] * 30)
    c = certify_losses(losses, LEDGER, "a", binary=False)
    assert c.theorem == "held-out-mean"
    assert c.bound == pytest.approx(bounds.kl_chernoff(0.25, 90, 0.03), rel=1e-10)
    assert c.bound > bounds.kl_chernoff(0.25, 90, 0.03)


def test_a_cost_is_bounded_in_its_own_units():
    losses = np.array([0.5, 0.0, 0.25] * 30)
    one, ten = (certify_losses(losses, LEDGER, "a", binary=False, scale=s) for s in (1.0, 10.0))
    assert ten.bound == pytest.approx(10 * one.bound)
    assert ten.bound >= 10 * one.bound
    assert ten.losses == pytest.approx(10 * one.losses)
    assert "at most 3." in str(ten)
    assert "%" not in str(ten)


def test_without_examples_the_bound_is_vacuous():
    c = certify_losses(np.zeros(0), LEDGER, "a", binary=True)
    assert c.bound == 1
    assert c.vacuous


def test_it_says_what_it_covers():
    said = {"predictor": "a predictor fixed before the bound set was seen"}
    ledger = Ledger.equal(0.05, "held-out")
    c = certify_losses(np.zeros(1000), ledger, "held-out", binary=True, **said)
    assert str(c) == (
        "at most 0.30 % error with probability 0.95, by held-out on 1000 examples: a predictor "
        "fixed before the bound set was seen"
    )


def test_an_overspent_ledger_is_refused():
    c = certify_losses(np.zeros(9), LEDGER, "a", binary=True)
    with pytest.raises(ValueError, match="spends more than"):
        replace(c, ledger={"a": 0.03, "b": 0.03})
