"""One record for every certificate; each format writes its own fields, and nothing is lost."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

import pacbayes
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


@pytest.mark.parametrize(
    "name", ["part", "noun", "subset", "scale", "losses", "remarks", "theorem"]
)
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
