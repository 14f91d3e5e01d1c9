"""One record for all: files, counted losses, and what a certificate says."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

import pacbayes
from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import (
    FORMAT,
    Evidence,
    certify_losses,
    issue,
    read_certificate,
    read_classifier,
)
from pacbayes.files import DamagedFileError

LEDGER = Ledger(0.05, {"a": 0.03, "b": 0.02})
NETWORK = issue(
    "held-out",
    Evidence(n=40, risk=0.05, risk_upper=0.05),
    Ledger.equal(0.05, "pac-bayes"),
    "pac-bayes",
    assumptions=Assumptions(data="iris", split_seed=3, code="Mine"),
    provenance={"versions": {"numpy": "2"}},
)
WORDS = {  # subset, group, noun: unit and quantity
    (None, None, "error"): ("examples", "error"),
    (None, "", "cost"): ("groups", "mean cost within a new group"),
    ("class a on b", None, "error"): ("examples (class a on b)", "error on class a on b"),
    ("class 1", "", "error"): ("groups", "mean error on class 1 within a new group"),
    ("class big examples", None, "error"): (
        "examples (class big examples)",
        "error on class big examples",
    ),
    ("answered", None, "error"): ("examples (answered)", "error on answered examples"),
    (None, None, "share of unanswered examples"): ("examples", "share of unanswered examples"),
}


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


def counted(subset=None, group=None, noun="error", scale=1.0):
    return certify_losses(
        np.array([0.25, 0.0, 1.0, 0.0]),
        Ledger(0.05, {"a": 0.02, "b": 0.03}),
        "b",
        binary=False,
        scale=scale,
        predictor="forest, fitted to 9 other examples",
        noun=noun,
        subset=subset,
        assumptions=Assumptions(split_seed=5, group=group, repeats=True, covers="candidates"),
        provenance={"seed": 5},
    )


def saved(tmp_path, record):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps({"format": FORMAT, **record}))
    return path


@pytest.mark.parametrize(
    "c",
    [
        NETWORK,
        replace(NETWORK, subset="class a b"),
        NETWORK.of_class("x", 0.2),
        replace(NETWORK, part="pac-bayes, held-out", ledger={"pac-bayes, held-out": 0.01}),
        replace(NETWORK, assumptions=Assumptions(group="patient", deduplicated=True)),
    ],
)
def test_a_network_comes_back_as_it_was_written(c, tmp_path):
    again = read_certificate(saved(tmp_path, c.as_dict()))
    assert again == c
    assert again.risk_upper == c.risk_upper
    assert again.as_dict() == c.as_dict()


@pytest.mark.parametrize(("said", "words"), WORDS.items())
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_classifier_comes_back_as_it_was_written(said, words, scale, tmp_path):
    c = counted(*said, scale)
    record = json.loads(json.dumps(c.as_dict()))
    assert (c.unit, c.quantity) == (record["unit"], record["quantity"]) == words
    assert record["theorem"] == "kl-chernoff"  # the name of held-out-mean in these files
    assert record["assumptions"] == list(c.assumptions)
    again = read_classifier(record, c.assumptions, tmp_path)
    assert again == c
    assert again.risk_upper == pytest.approx(c.risk_upper, rel=1e-15)
    assert again.as_dict() == c.as_dict()
    assert (c.risk, c.bound) == (1.25 * scale / 4, pytest.approx(scale * counted(*said).bound))


@pytest.mark.parametrize("name", ["predictor", "risk_upper", "kl_by_part", "bound_name"])
def test_a_file_without_a_field_is_damaged(name, tmp_path):
    record = NETWORK.as_dict()
    del record[name]
    with pytest.raises(DamagedFileError, match=f"{name}: Field required"):
        read_certificate(saved(tmp_path, record))


@pytest.mark.parametrize("name", ["part", "subset", "scale", "losses", "remarks", "theorem"])
def test_a_file_cannot_set_what_its_format_does_not_have(name, tmp_path):
    with pytest.raises(DamagedFileError, match=f"the field '{name}' is unknown"):
        read_certificate(saved(tmp_path, NETWORK.as_dict() | {name: None}))
    record = counted().as_dict() | {"risk_upper": 0.0}
    with pytest.raises(DamagedFileError, match="the field 'risk_upper' is unknown"):
        read_classifier(record, counted().assumptions, tmp_path)


def test_a_file_of_a_network_cannot_claim_to_be_about_something_else(tmp_path):
    record = NETWORK.as_dict()
    record["assumptions"]["covers"] = "predictor"
    assert read_certificate(saved(tmp_path, record)).assumptions == NETWORK.assumptions


def test_assumptions_are_their_sentences():
    for c in (NETWORK, counted()):
        assert list(c.assumptions) == list(c.assumptions.sentences())
        assert len(c.assumptions) == len(list(c.assumptions))
        assert c.assumptions[-1] in c.assumptions
    assert "No other split was tried than that of seed 5." in counted().assumptions
    assert "The code of Mine keeps nothing" in " ".join(NETWORK.assumptions)


def test_without_examples_nothing_is_known():
    c = certify_losses(np.zeros(0), Ledger.equal(0.05, "a"), "a", binary=True, scale=4.0)
    assert (c.bound, c.vacuous, c.n) == (4.0, True, 0)


def test_the_parts_of_a_cost_add_up_to_its_bound():
    c = counted(scale=3.0)
    assert sum(c.contributions.values()) == pytest.approx(c.bound)
    assert c.contributions["risk"] == pytest.approx(c.risk)
    assert c.contributions["monte-carlo"] == pytest.approx(0, abs=1e-9)  # nothing is sampled


def test_the_former_name_still_works():
    with pytest.warns(DeprecationWarning, match="the old name ends in version"):
        module = importlib.import_module("pacbayes.certified.certificate")
    assert module.HeldOutCertificate is pacbayes.Certificate
