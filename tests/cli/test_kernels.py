"""The command line trains, certifies, verifies and predicts with kernel networks."""

import json

import numpy as np
import pytest

QUICK = ("--landmarks", "150", "--directions", "40", "--epochs", "5", "--quiet")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))


def test_from_training_to_predictions(run_cli, tmp_path):
    run = tmp_path / "run"
    train = ("train", "--dataset", "digits", "--network", "kernel", "--out", run, *QUICK)
    code, out, _ = run_cli(*train)
    assert code == 0
    assert "a guide, not yet a certificate" in out
    code, out, _ = run_cli(*train)
    assert "Already trained" in out
    code, out, _ = run_cli("certify", run)
    assert code == 0
    assert "Certificate: at most" in out
    assert "training risk, exact" in out
    code, out, _ = run_cli("verify", run, "--full")
    assert code == 0
    assert "Verified: at most" in out
    code, out, err = run_cli("predict", run, "digits")
    assert code == 0
    assert out.startswith("label\n")
    assert "error on the labels given" in err
    code, out, _ = run_cli("predict", run, "digits", "--method", "vote", "--json")
    assert json.loads(out)["predictor"].startswith("majority vote of all of Q")


def test_a_table_of_numbers(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    more = ("--kernel", "gaussian^2 + linear", *QUICK)
    assert run_cli("train", "--dataset", csv, "--network", "kernel", "--out", run, *more)[0] == 0
    assert run_cli("certify", run, "--json")[0] == 0
    assert run_cli("verify", run, "--full")[0] == 0
    code, out, _ = run_cli("predict", run, csv, "--method", "vote")
    assert code == 0
    assert set(out.split()[1:]) <= {"label,vote"} | set(out.split()[1:])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--network", "kernel", "--widths", "3"), "--widths needs --network dense or conv"),
        (("--network", "dense", "--landmarks", "3"), "--landmarks needs --network kernel"),
        (("--network", "kernel", "--kernel", "cubic"), "cannot read 'cubic'"),
        (("--network", "kernel", "--features", "wavelet"), "wavelets"),
        (("--network", "kernel", "--features", "colours", "--kernel", "-2"), "positive"),
        (("--network", "kernel", "--landmarks", "0"), "landmarks must be at least 1, got 0"),
        (("--network", "kernel", "--device", "cuda"), "trains on the CPU"),
        (("--network", "kernel", "--tensorboard", "x"), "--tensorboard needs"),
        (("--network", "kernel", "--prior-fraction", "0.5"), "--prior-fraction"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run_cli, tmp_path, more, said):
    code, out, err = run_cli("train", "--dataset", "digits", "--out", tmp_path / "run", *more)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert not out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("certify", "RUN", "--samples", "3"), "--samples"),
        (("certify", "RUN", "--bound", "disintegrated"), "needs one network"),
        (("predict", "RUN", "digits", "--method", "drawn"), "no drawn predictor"),
        (("predict", "RUN", "digits", "-T", "7"), "--samples"),
        (("export", "RUN", "--format", "onnx", "--out", "x.onnx"), "cannot be exported yet"),
        (("verify", "RUN", "--relearn"), "--relearn"),
    ],
)
def test_options_without_effect_are_refused(run_cli, trained, command, said):
    code, _, err = run_cli(*[trained if word == "RUN" else word for word in command])
    assert code == 2
    assert said in err


@pytest.fixture
def trained(run_cli, tmp_path):
    folder = tmp_path / "run"
    run_cli("train", "--dataset", "digits", "--network", "kernel", "--out", folder, *QUICK)
    return folder


def test_images_of_another_shape_need_other_features(run_cli, tmp_path):
    x = np.random.default_rng(0).random((60, 5))
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
    given = ("--dataset", tmp_path / "data.npz", "--network", "kernel", "--features", "wavelets")
    code, _, err = run_cli("train", *given, "--out", tmp_path / "run")
    assert code == 2
    assert "--features columns" in err


def test_a_report_shows_certificate_checks_and_commands(run_cli, trained):
    code, _, _ = run_cli("report", trained)
    assert code == 0
    assert "trained but not certified" in (trained / "report.html").read_text()
    run_cli("certify", trained)
    assert run_cli("report", trained)[0] == 0
    page = (trained / "report.html").read_text()
    shown = json.loads((trained / "certificate.json").read_text())["bound"]
    for text in (f"{100 * shown:.1f}"[:3], "directions", "AGAᵀ", "landmarks", "strokes"):
        assert text in page
    code, _, err = run_cli("plot", trained, "--out", trained / "x.png")
    assert code == 2
    assert "no plot yet" in err
