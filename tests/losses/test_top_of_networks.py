"""The top-k error of a network: training is as ever, the certificate counts the best scores."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits

import pacbayes
from pacbayes import PACBayesClassifier
from pacbayes.certificates.certificate import read_certificate
from pacbayes.files import DamagedFileError
from pacbayes.networks.architecture import dense_network
from pacbayes.networks.predictors import are_errors, prior_weights, scores
from pacbayes.verify import verify

X, Y = load_digits(return_X_y=True)


def fitted(loss="top-2", **given):
    given = {"widths": (20,), "epochs": 2, "prior_epochs": 5, "random_state": 0} | given
    return PACBayesClassifier(loss=loss, **given).fit(X, Y)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "run", X, Y)
    return tmp_path / "run"


@pytest.mark.parametrize("best", [1, 2, 3])
def test_a_label_counts_if_fewer_others_are_as_good(best):
    torch.manual_seed(0)
    network = dense_network(5, (4,), classes=6).double()
    x, y = torch.randn(300, 5).double(), torch.randint(6, (300,))
    weights = prior_weights(network)
    z = scores(network, weights, x)
    others = (z >= z.gather(1, y[:, None])).sum(1) - 1
    assert torch.equal(are_errors(network, weights, x, y, best), others >= best)


def test_ties_are_errors():
    network = dense_network(5, (), classes=4).double()
    weights = {name: torch.zeros_like(w) for name, w in prior_weights(network).items()}
    x, y = torch.randn(8, 5).double(), torch.zeros(8).long()
    assert are_errors(network, weights, x, y, 3).all()


def test_the_certificate_counts_what_the_classifier_answers(model):
    c, rows = model.certificate_, model.bound_set_
    best = model.top(X[rows])
    assert best.shape == (len(rows), 2)
    assert (best[:, 0] == model.predict(X[rows])).all()
    assert c.quantity == "top-2 error"
    assert round(c.risk * c.n) == (best != Y[rows][:, None]).all(1).sum()


def test_training_does_not_depend_on_it(model):
    other = fitted("error")
    for name, tensor in other.network_.state_dict().items():
        assert torch.equal(tensor, model.network_.state_dict()[name])
    assert other.certificate_.risk > model.certificate_.risk


@pytest.mark.parametrize("predictor", ["vote", "randomised"])
def test_more_than_one_network_is_refused(predictor):
    with pytest.raises(ValueError, match="counted for one network"):
        fitted(predictor=predictor)


def test_two_classes_are_refused():
    few = Y < 2
    with pytest.raises(ValueError, match="more than two classes"):
        PACBayesClassifier(loss="top-2").fit(X[few], Y[few])


def test_a_folder_is_verified_and_loaded(model, folder):
    assert all(finding.holds for finding in verify(folder, full=True))
    again = pacbayes.load(folder)
    np.testing.assert_array_equal(again.top(X), model.top(X))
    assert again.certificate_.quantity == "top-2 error"


@pytest.mark.parametrize("noun", ["error", "top-10 error", None])
def test_verify_refuses_another_count(model, folder, noun):
    path = next(folder.glob("certificate*.json"))
    record = json.loads(path.read_text())
    assert record.pop("noun") == "top-2 error"
    path.write_text(json.dumps(record | ({} if noun is None else {"noun": noun})))
    assert not all(finding.holds for finding in verify(path))


def test_the_command_line_takes_it_all_the_way(tmp_path):
    def says(*words, code=0):
        command = [sys.executable, "-m", "pacbayes", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    run, data, out = tmp_path / "run", tmp_path / "data.csv", tmp_path / "labels.csv"
    pd.DataFrame(X).add_prefix("pixel ").assign(label=Y).to_csv(data, index=False)
    short = ("--epochs", 2, "--prior-epochs", 5, "--prior-fraction", 0.5, "--widths", 20)
    says("train", "--dataset", data, "--out", run, *short)
    refused = says("certify", run, "--loss", "top-3", "--bound", "small-kl", code=2)
    assert "--loss top-3 counts errors of one network" in refused.stderr
    assert "top-3 error" in says("certify", run, "--loss", "top-3", "--bound", "held-out").stdout
    says("verify", run, "--full")
    done = says("predict", run, data, "--method", "fixed", "--out", out)
    assert out.read_text().startswith("label,label 2,label 3\n")
    assert "top-3 error on the labels given" in done.stderr
    says("report", run, "--out", tmp_path / "page.html")
    assert "top-3 error" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("noun", ["harm", "top-two error", 3])
def test_a_file_with_an_unknown_loss_is_damaged(folder, noun):
    path = next(folder.glob("certificate*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"noun": noun}))
    with pytest.raises(DamagedFileError, match=r"damaged: (the loss .* is unknown|noun: )"):
        read_certificate(path)
