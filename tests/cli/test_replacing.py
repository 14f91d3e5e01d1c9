"""A certificate is not replaced by one of another theorem, unless that is wanted."""

import json

import pytest

from pacbayes import folders
from pacbayes.folders.run import refuse_other


@pytest.fixture
def run(run_cli, tmp_path, csv):
    options = ("--widths", "3", "--epochs", "1", "--prior-fraction", "0", "--quiet")
    code, _, err = run_cli("train", "--dataset", csv, *options, "--out", tmp_path / "run")
    assert code == 0, err
    return tmp_path / "run"


def test_another_theorem_for_the_same_predictor_is_refused(run_cli, run):
    asked = ("--samples", "10", "--json")
    assert run_cli("certify", run, "--bound", "first-order", *asked)[0] == 0
    path = run / "certificate-vote.json"
    before = path.read_bytes()
    code, out, err = run_cli("certify", run, "--bound", "tandem", *asked)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path} is a certificate by first-order, which one by tandem")
    assert err.count("\n") == 1
    assert path.read_bytes() == before
    assert run_cli("certify", run, "--bound", "first-order", *asked)[0] == 0  # the same again
    assert run_cli("certify", run, "--bound", "small-kl", *asked)[0] == 0  # another predictor
    assert run_cli("certify", run, "--bound", "tandem", "--replace", *asked)[0] == 0
    assert json.loads(path.read_text())["bound_name"] == "tandem"


def test_the_choice_among_theorems_is_refused_when_it_is_another(run_cli, run):
    opened = folders.open_run(run)
    asked = {"delta": 0.05, "samples": 10}
    network, data = opened.load_network(), opened.load_data()
    best = folders.certify_run(opened, network, data, bound="best-of", **asked).bound_name
    other = "catoni" if best != "catoni" else "small-kl"
    folders.certify_run(opened, network, data, bound=other, replace_other=True, **asked)
    before = (run / "certificate.json").read_bytes()
    with pytest.raises(ValueError, match=f"by {other}, which one by {best} would replace"):
        folders.certify_run(opened, network, data, bound="best-of", **asked)
    assert (run / "certificate.json").read_bytes() == before


def test_certificates_of_classes_are_not_replaced_either(run_cli, run):
    asked = ("--per-class", "--samples", "10", "--json")
    assert run_cli("certify", run, "--bound", "small-kl", *asked)[0] == 0
    before = (run / "certificate-class-0.json").read_bytes()
    code, _, err = run_cli("certify", run, "--bound", "catoni", *asked)
    assert (code, "certificate-class-0.json is a certificate by small-kl" in err) == (2, True)
    assert (run / "certificate-class-0.json").read_bytes() == before
    assert run_cli("certify", run, "--bound", "catoni", "--replace", *asked)[0] == 0


def test_a_certificate_of_another_loss_is_not_replaced(run):
    path = run / "certificate.json"
    opened = folders.open_run(run)
    asked = {"delta": 0.05, "samples": 10, "bound": "small-kl"}
    folders.certify_run(opened, opened.load_network(), opened.load_data(), **asked)
    refuse_other(path, "small-kl", "error")
    refuse_other(path, "small-kl")
    with pytest.raises(ValueError, match="of the error, which one of the top-3 error would"):
        refuse_other(path, "small-kl", "top-3 error")
