"""The command line trains, certifies, verifies and predicts with networks other than dense."""

import json

import pytest
from typer.testing import CliRunner

from pacbayes.cli import app

QUICK = ("--epochs", "2", "--evaluate-every", "2", "--channels", "3,3", "--kernels", "3,3", "-q")
OWN = """
from torch import nn

def build(shape, outputs):
    return nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(),
                         nn.Flatten(), nn.Linear(108, outputs))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))


def call(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def train(folder, *more):
    return call("train", "--dataset", "digits", "--out", folder, *more)


def test_convolutions_from_training_to_predictions(tmp_path):
    run = tmp_path / "run"
    train(run, "--network", "conv", *QUICK)
    assert "Certificate: at most" in call("certify", run, "--samples", 4)
    assert "Verified: at most" in call("verify", run, "--full")
    assert len(call("predict", run, "digits").splitlines()) == 360  # with a heading
    assert "Already trained" in train(run, "--network", "conv", *QUICK)
    saved = json.loads((run / "run.json").read_text())["network"]["architecture"]
    assert saved["channels"] == [3, 3]
    assert saved["strides"] == [1, 2]


def test_options_of_learning_need_a_prior_that_learns_also_on_tables(tmp_path):
    table, file = tmp_path / "table.csv", tmp_path / "mine.py"
    table.write_text("a,b,y\n" + "1,2,no\n2,1,yes\n" * 20)
    file.write_text(OWN)
    more = ("--dataset", table, "--network", f"{file}:build", "--prior-epochs", 2)
    with pytest.raises(ValueError, match="--prior-epochs needs a prior that learns"):
        call("train", *more, "--out", tmp_path / "run")


@pytest.mark.parametrize("option", [("--prior-precision", "bfloat16"), ("--prior-finer",)])
def test_dense_networks_refuse_what_modules_learn_with(tmp_path, option):
    with pytest.raises(ValueError, match=f"{option[0]} needs --network conv"):
        call("train", "--prior-fraction", 0.5, *option, "--out", tmp_path / "run")


def test_the_time_for_draws_can_be_given(tmp_path):
    train(tmp_path / "run", "--network", "conv", *QUICK)
    found = json.loads(call("certify", tmp_path / "run", "--seconds", 1, "--json"))
    assert found["samples"] >= 2
    assert found["monte_carlo"] == "stratified-bernstein"


def test_a_function_of_one_s_own_is_named_and_its_code_kept(tmp_path):
    file, run = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(OWN)
    more = ("--network", f"{file}:build", "--prior-fraction", 0.5, "--prior-epochs", 2, "-q")
    train(run, *more, "--prior-decay", 0.01)
    file.unlink()
    assert (run / "network.py").read_text() == OWN
    assert "held-out" in call("certify", run)
    assert "mine.py:build" in call("verify", run, "--full", "--relearn")


def test_code_in_a_folder_of_somebody_else_must_be_allowed(tmp_path, monkeypatch):
    file, run = tmp_path / "mine.py", tmp_path / "run"
    file.write_text(OWN)
    train(run, "--network", f"{file}:build", "--prior-fraction", 0.5, "--prior-epochs", 1, "-q")
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "theirs"))
    with pytest.raises(ValueError, match=f"pacbayes allow {run}"):
        call("certify", run)
    assert "Allowed" in call("allow", run)
    call("certify", run)
    with pytest.raises(ValueError, match="needs no code of its own"):
        call("allow", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--channels", "3"), "--channels needs --network conv"),
        (("--network", "conv", "--channels", "a"), "--channels must look like 16,32, got 'a'"),
        (("--network", "conv", "--estimator", "marginal"), "--estimator needs --network dense"),
        (("--network", "conv", "--activation", "sign"), "--activation sign needs --network dense"),
        (("--network", "conv", "--protocol", "paper"), "--protocol paper needs --network dense"),
        (("--network", "convv"), "--network must be dense, conv, kernel or a function such as"),
        (("--network", "absent.py:build"), "absent.py does not exist"),
        (("--network", "a.py:b", "--widths", "3"), "--widths needs --network dense or conv"),
        (("--prior-decay", "0.1", "--prior-fraction", "0.5"), "--prior-decay needs --network conv"),
        (("--network", "conv", "--prior-decay", "0.1"), "--prior-decay needs a prior that learns"),
        (("--network", "conv", "--kernels", "9,9"), "too small for a convolution of 9×9"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", *options)
    assert not (tmp_path / "run").exists()


def test_convolutions_need_images(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["a,b,y", *(f"{i},{i % 7},{i % 2}" for i in range(60))]))
    with pytest.raises(ValueError, match="convolutions need images"):
        call("train", "--dataset", table, "--network", "conv", "--out", tmp_path / "run", "-q")


@pytest.mark.parametrize("dataset", ["digits", "ten-digits"])
@pytest.mark.parametrize("network", ["dense", "conv", "own"])
@pytest.mark.parametrize("learned", [False, True])
def test_defaults_suit_every_bundled_data_set(tmp_path, dataset, network, learned):
    file = tmp_path / "mine.py"
    file.write_text(OWN if learned else OWN.replace("nn.BatchNorm2d(3), ", ""))
    more = ("--prior-fraction", "0.5", "--prior-epochs", "1") if learned else ()
    chosen = f"{file}:build" if network == "own" else network
    given = ("--dataset", dataset, "--network", chosen, "--epochs", "1", *more)
    call("train", *given, "--out", tmp_path / "run", "--quiet")
    assert len(call("predict", tmp_path / "run", dataset).splitlines()) == 360
