"""A saved network is an ordinary run folder, and comes back with the same predictions."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler

import pacbayes
from pacbayes import PACBayesClassifier
from pacbayes.files import DamagedFileError
from pacbayes.folders import TrainedNetwork, open_run
from pacbayes.folders.estimators import load_estimator
from pacbayes.verify import certificates_in, verify

KINDS = {
    "best": {},
    "drawn": {"predictor": "drawn"},
    "vote": {"predictor": "vote", "votes": 20},
    "randomised": {"predictor": "randomised", "priors": 3, "votes": 20},
    "data-free": {"prior_fraction": 0.0},
    "as they are": {"preprocessing": None, "predictor": "fixed"},
}
pytestmark = pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # little training


def examples(n=240):
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, size=(n, 4))
    return x, np.where(x[:, 0] + rng.normal(size=n) > 3, "good", "bad")


def fit(x, y, **changes):
    small = {"widths": (8,), "epochs": 2, "prior_epochs": 5, "random_state": 0}
    return PACBayesClassifier(**(small | changes)).fit(x, y)


@pytest.fixture(scope="module")
def fitted():
    x, y = examples()
    return fit(x, y), x, y


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_and_verifies(kind, tmp_path):
    x, y = examples()
    model = fit(x, y, **KINDS[kind])
    model.save(tmp_path / "run", x, y)
    again = pacbayes.load(tmp_path / "run")
    assert type(again) is PACBayesClassifier
    assert vars(again).keys() == vars(model).keys()
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(again.bound_set_, model.bound_set_)
    for name in ("bound", "n", "risk", "kl", "delta", "ledger"):
        assert getattr(again.certificate_, name) == getattr(model.certificate_, name)
    (path,) = certificates_in(tmp_path / "run")
    assert [f for f in verify(path, full=True) if not f.holds] == []


def test_the_commands_take_the_folder(fitted, run_cli, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "run", x, y)
    pd.DataFrame(x, columns=list("0123")).to_csv(tmp_path / "new.csv", index=False)
    code, out, err = run_cli("predict", tmp_path / "run", tmp_path / "new.csv")
    assert code == 0, err
    assert out.split()[1:] == model.predict(x).tolist()
    assert run_cli("verify", tmp_path / "run", "--relearn")[0] == 0
    assert run_cli("certify", tmp_path / "run", "-T", 10)[0] == 0
    assert run_cli("report", tmp_path / "run")[0] == 0
    exported = tmp_path / "model.onnx"
    assert run_cli("export", tmp_path / "run", "--format", "onnx", "--out", exported)[0] == 0
    model.save(tmp_path / "run", x, y)  # replaces it, report and all
    assert not (tmp_path / "run" / "report.html").exists()


def test_columns_of_a_data_frame_keep_their_names(tmp_path):
    x, y = examples()
    frame = pd.DataFrame(x, columns=["a", "b", "label", "d"])
    model = fit(frame, y)
    model.save(tmp_path / "run", frame, y)
    again = pacbayes.load(tmp_path / "run")
    assert again.feature_names_in_.tolist() == ["a", "b", "label", "d"]
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert open_run(tmp_path / "run").record.data.names == ("a", "b", "label", "d")


def test_without_a_copy_verify_needs_the_data(fitted, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "with", x, y)
    model.save(tmp_path / "without", x, y, data=False)
    assert not list((tmp_path / "without").glob("data.*"))
    (path,) = certificates_in(tmp_path / "without")
    with pytest.raises(ValueError, match="no such file"):
        list(verify(path))
    data = shutil.copy(tmp_path / "with" / "data.parquet", tmp_path)
    assert all(f.holds for f in verify(path, data=data))
    np.testing.assert_array_equal(pacbayes.load(tmp_path / "without").predict(x), model.predict(x))


def test_other_examples_are_refused_and_nothing_is_left(fitted, tmp_path):
    model, x, y = fitted
    with pytest.raises(ValueError, match="are not the examples that the classifier was"):
        model.save(tmp_path / "run", x + 1, y)
    with pytest.raises(ValueError, match="are not the examples that the classifier was"):
        model.save(tmp_path / "run", x, y[::-1])
    assert not any(tmp_path.iterdir())


def test_other_preprocessing_is_refused(tmp_path):
    x, y = examples()
    model = fit(x, y, preprocessing=MinMaxScaler())
    with pytest.raises(ValueError, match="MinMaxScaler cannot be kept in a run folder"):
        model.save(tmp_path / "run", x, y)


def test_classes_must_sort_alike_as_texts(tmp_path):
    x, _ = examples()
    model = fit(x, np.where(x[:, 0] > 3, 9, 10))
    with pytest.raises(ValueError, match="classes 9, 10… are in another order as texts"):
        model.save(tmp_path / "run", x, np.where(x[:, 0] > 3, 9, 10))


def test_a_withheld_certificate_stays_withheld(tmp_path):
    x, y = examples(60)
    x, y = np.tile(x, (3, 1)), np.tile(y, 3)
    model = fit(x, y, predictor="drawn")
    assert model.certificate_ is None
    model.save(tmp_path / "run", x, y)
    again = pacbayes.load(tmp_path / "run")
    assert again.certificate_ is None
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_a_run_of_the_command_line_is_not_a_saved_classifier(fitted, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "run", x, y)
    (tmp_path / "run" / "classifier.json").unlink()
    assert isinstance(pacbayes.load(tmp_path / "run"), TrainedNetwork)
    with pytest.raises(ValueError, match="was made by pacbayes train"):
        load_estimator(tmp_path / "run")


def test_classes_in_another_order_are_not_loaded(fitted, tmp_path):
    model, x, y = fitted
    model.save(tmp_path / "run", x, y)
    path = tmp_path / "run" / "classifier.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"classes": state["classes"][::-1]}))
    with pytest.raises(DamagedFileError, match="in another order"):
        pacbayes.load(tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [
        {"votes": -3},
        {"temperature": "x"},
        {"temperature": -1.0},
        {"predictor": "lucky"},
        {"names": 7},
        {"format": "2"},
        {"more": 1},
    ],
    ids=str,
)
def test_a_changed_state_is_not_loaded(fitted, tmp_path, change):
    model, x, y = fitted
    model.save(tmp_path / "run", x, y)
    path = tmp_path / "run" / "classifier.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedFileError, match=r"classifier\.json is damaged"):
        pacbayes.load(tmp_path / "run")
