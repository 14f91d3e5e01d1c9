"""A loss that was added by one instance: the label is not among the k likeliest answers."""

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import pacbayes
from pacbayes import CertifiedClassifier, bounds, certify_predictor
from pacbayes.folders.models import issue_again, predict_file
from pacbayes.folders.replaying import replay
from pacbayes.losses.bounded import loss_of, top
from pacbayes.report import collect, page
from pacbayes.verify import verify

X, Y = load_digits(return_X_y=True)
CANDIDATES = {
    "linear": LinearDiscriminantAnalysis(),
    "neighbours": KNeighborsClassifier(),
}


def fitted(loss="top-3", **given):
    given = {"candidates": CANDIDATES, "random_state": 0} | given
    return CertifiedClassifier(loss=loss, **given).fit(X, Y)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "run", X)
    return tmp_path / "run"


def test_it_errs_where_the_label_is_not_among_the_answers():
    best = np.array([[0, 1], [2, 1], [1, 2]])
    np.testing.assert_array_equal(top(2)(best, np.array([1, 0, 1])), [0, 1, 0])
    assert (top(2).noun, top(2).binary, top(2).scale) == ("top-2 error", True, 1)


@pytest.mark.parametrize("name", ["top-1", "top-0", "top-3", "top", "top-2.5", "error ", None])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="loss"):
        loss_of(np.arange(3), None, name)
    with pytest.raises(ValueError, match="more than two classes"):
        loss_of(np.arange(2), None, "top-2")
    with pytest.raises(ValueError, match="not both"):
        loss_of(np.arange(3), np.ones((3, 3)) - np.eye(3), "top-2")


def test_the_certificate_counts_what_the_classifier_answers(model):
    c, rows = model.certificate_, model.bound_set_
    best = model.top(X[rows])
    wrong = sum(y not in b for y, b in zip(Y[rows], best, strict=True))
    assert best.shape == (len(rows), 3)
    assert (c.losses, c.n, c.theorem) == (wrong, len(rows), "held-out")
    assert c.bound == bounds.clopper_pearson(wrong / len(rows), len(rows), c.ledger[c.part])
    assert "% top-3 error with probability" in str(c)
    p = model.predict_proba(X[rows])
    smallest = np.take_along_axis(p, best, 1).min(1)
    assert ((p > smallest[:, None]).sum(1) < 3).all()


def test_more_labels_err_less():
    errors = [fitted(k, average=False).certificates_["linear"].losses for k in ("error", "top-2")]
    errors.append(fitted("top-5", average=False).certificates_["linear"].losses)
    assert all(more > fewer for more, fewer in pairwise(errors))


def test_it_is_the_loss_of_every_class_too():
    model = fitted(per_class=True)
    c = model.class_certificates_[8]
    assert c.quantity == "top-3 error on class 8"
    there = Y[model.bound_set_] == 8
    best = model.top(X[model.bound_set_][there])
    assert (c.n, c.losses) == (there.sum(), (best != 8).all(1).sum())


def test_cross_validation_chooses_by_it():
    model = fitted(choose="cross-validation")
    assert model.certificate_.quantity == "top-3 error"


def test_what_does_not_go_together_is_refused():
    for given in ({"choose": "vote"}, {"target_error": 0.1}):
        with pytest.raises(ValueError, match="leave loss out"):
            fitted(**given)
    with pytest.raises(ValueError, match="'svm' has no predict_proba"):
        fitted(candidates={"svm": LinearSVC()})


def test_a_folder_is_verified_and_loaded(model, folder):
    found = list(verify(folder / "certificate.json", full=True, replay=replay))
    assert all(finding.holds for finding in found)
    assert json.loads((folder / "run.json").read_text())["loss"] == "top-3"
    again = pacbayes.load(folder)
    np.testing.assert_array_equal(again.top(X), model.top(X))
    assert again.certificate_ == model.certificate_


@pytest.mark.parametrize("loss", ["error", "top-2", "top-4", "top-99", "top-03"])
def test_verify_refuses_a_folder_that_counts_otherwise(folder, loss):
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"loss": loss}))
    try:
        found = list(verify(folder / "certificate.json"))
    except ValueError as error:
        assert "loss" in str(error)  # noqa: PT017
    else:
        assert any(f.name == "evidence" and not f.holds for f in found)


def test_a_report_says_which_labels_count(folder):
    text = page(collect(folder))
    assert "top-3 error on the bound set" in text
    assert "top-3 error of always answering" in text
    assert "the largest classes" in text


def test_verify_counts_the_labels_again(model, folder):
    from pacbayes.folders.models import read_evidence
    from pacbayes.folders.record import read_record

    e = read_evidence(folder, read_record(folder))
    for name, predictions in e.predictions.items():
        assert predictions.shape == (len(e.rows), 3)
        wrong = (predictions != e.labels[e.rows][:, None]).all(1).sum()
        assert model.certificates_[name].losses == wrong


def test_a_predictor_of_several_labels_is_certified():
    model = LinearDiscriminantAnalysis().fit(X[:900], Y[:900])

    def best(x):
        return np.argsort(-model.predict_proba(x), axis=1)[:, :2]

    c = certify_predictor(best, X[900:], Y[900:], loss="top-2")
    wrong = (best(X[900:]) != Y[900:, None]).all(1).sum()
    assert (c.quantity, c.losses) == ("top-2 error", wrong)
    with pytest.raises(ValueError, match="must return 3 labels"):
        certify_predictor(best, X[900:], Y[900:], loss="top-3")


def test_it_is_issued_again_at_another_delta(model, folder):
    again = issue_again(folder, 0.01)
    c = model.certificate_
    assert (again.quantity, again.losses) == (c.quantity, c.losses)
    assert again.bound == bounds.clopper_pearson(c.risk, c.n, again.ledger[c.part]) > c.bound
    assert all(finding.holds for finding in verify(folder / "certificate.json"))


def test_files_get_all_labels_of_an_answer(tmp_path):
    frame = pd.DataFrame(X, columns=[f"pixel {i}" for i in range(X.shape[1])])
    names = np.array([f"digit {y}" for y in Y])
    model = CertifiedClassifier(candidates=CANDIDATES, loss="top-2", random_state=0)
    model.fit(frame, names).save(tmp_path / "run")
    frame.assign(label=names).to_csv(tmp_path / "new.csv", index=False)
    found = predict_file(tmp_path / "run", str(tmp_path / "new.csv"), "label")
    best = model.top(frame)
    assert found.best == best.tolist()
    assert found.labels == best[:, 0].tolist()
    assert found.error == np.mean((best != names[:, None]).all(1))


def pacbayes_says(*words):
    command = [sys.executable, "-m", "pacbayes", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_line_takes_it_all_the_way(tmp_path):
    run, data, labels = (tmp_path / name for name in ("run", "data.csv", "labels.csv"))
    pd.DataFrame(X).assign(label=Y).to_csv(data, index=False)
    train = ("train", "--dataset", data, "--test-data", data, "--model", "forest", "--out", run)
    done = pacbayes_says(*train, "--loss", "top-2", "--seed", "0")
    assert done.returncode == 0, done.stderr
    assert "% top-2 error with probability 0.95" in done.stdout
    assert "Test top-2 error:" in done.stdout
    for command in (("verify", run, "--full"), ("certify", run, "--delta", "0.01")):
        done = pacbayes_says(*command)
        assert done.returncode == 0, done.stderr
        assert "top-2 error" in done.stdout
    done = pacbayes_says("predict", run, data, "--out", labels)
    assert done.returncode == 0, done.stderr
    assert labels.read_text().startswith("label,label 2\n")
    assert "top-2 error on the labels given" in done.stderr
    done = pacbayes_says("report", run, "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--loss needs --model boosting, forest, linear or best"),
        (("--model", "linear"), "the loss top-K of 2 classes is for more than two classes"),
    ],
)
def test_the_command_line_refuses_it_for_networks_and_few_classes(words, said, tmp_path):
    train = ("train", "--dataset", "digits", "--out", tmp_path / "run", "--loss", "top-2")
    done = pacbayes_says(*train, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
