"""A saved classifier comes back with the same predictions and certificates."""

import importlib.metadata
import json
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import pacbayes
from pacbayes import CertifiedClassifier, PACBayesClassifier
from pacbayes.files import DamagedFileError
from pacbayes.folders.replaying import replay
from pacbayes.verify import verify

from .conftest import FAST, numbers, table

KINDS = {
    "bound": {},
    "one": {"candidates": None, "estimator": LogisticRegression()},
    "vote": {"choose": "vote"},
    "cross-validation": {"choose": "cross-validation"},
    "classes": {"per_class": True},
    "costs": {"costs": [[0, 10], [1, 0]]},
    "free misses": {"costs": [[0, 2], [0, 0]]},
    "abstaining": {"target_error": 0.05, "per_class": True},
    "shares": {"shares": {"linear": 2, "bayes": 1}, "average": False},
}


def assert_same(before, after, x):
    assert type(after) is CertifiedClassifier
    np.testing.assert_array_equal(after.predict(x), before.predict(x))
    np.testing.assert_array_equal(after.predict_proba(x), before.predict_proba(x))
    assert after.predict(x).dtype == before.predict(x).dtype
    assert vars(after).keys() == vars(before).keys()
    for name in vars(before):
        if "certificate" in name:
            assert getattr(after, name) == getattr(before, name)
    assert repr(after.get_params()) == repr(before.get_params())


def all_hold(findings):
    found = list(findings)
    assert [f for f in found if not f.holds] == []
    return found


@pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # votes are loose
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [False, True], ids=["examples", "groups"])
def test_every_kind_of_classifier_comes_back_and_verifies(kind, grouped, tmp_path):
    x, y = numbers()
    groups = np.arange(len(y)) // 3 if grouped else None
    model = CertifiedClassifier(**({"candidates": FAST, "random_state": 0} | KINDS[kind]))
    model.fit(x, y, groups=groups)
    model.save(tmp_path / "model", x)
    assert_same(model, again := pacbayes.load(tmp_path / "model"), x)
    risk, want = again.certificate_.risk_upper, model.certificate_.risk_upper
    assert risk == pytest.approx(want, rel=1e-12)
    all_hold(verify(tmp_path / "model"))
    found = all_hold(verify(tmp_path / "model", full=True, replay=replay))
    assert "0 of" in next(f.detail for f in found if f.name == "predictions made again")


@pytest.mark.parametrize("when", ["size", "time"])
def test_a_saved_model_that_answers_differently_again_does_not_verify(when, tmp_path, monkeypatch):
    x, y = numbers()
    CertifiedClassifier(**({"random_state": 0} | KINDS["one"])).fit(x, y).save(tmp_path / "m", x)
    good, calls = LogisticRegression.predict, []

    def predict(self, X):
        calls.append(len(X))
        changed = len(X) < calls[0] if when == "size" else len(calls) > 1
        return good(self, X)[:: -1 if changed else 1]

    monkeypatch.setattr(LogisticRegression, "predict", predict)
    found = list(verify(tmp_path / "m", full=True, replay=replay))
    assert [f.name for f in found if not f.holds] == ["answers"]
    cause = "half of the examples at a time" if when == "size" else "asked again about the same"
    assert cause in next(f.detail for f in found if f.name == "answers")


def test_versions_are_those_of_the_loaded_libraries(tmp_path, monkeypatch):
    def unreadable(name):
        raise importlib.metadata.PackageNotFoundError(name)

    x, y = numbers()
    model = CertifiedClassifier(**({"random_state": 0} | KINDS["one"])).fit(x, y)
    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", unreadable)
    model.save(tmp_path / "model", x)
    versions = json.loads((tmp_path / "model" / "run.json").read_text())["versions"]
    assert (versions["scikit-learn"], versions["numpy"]) == (sklearn.__version__, np.__version__)


@pytest.mark.parametrize("as_objects", [False, True], ids=["data frame", "array of objects"])
def test_default_candidates_of_a_table_come_back(as_objects, tmp_path):
    x, y = table()
    x = x.to_numpy(object) if as_objects else x
    model = CertifiedClassifier(random_state=0).fit(x, y)
    model.save(tmp_path / "model", x)
    assert_same(model, pacbayes.load(tmp_path / "model"), x)
    all_hold(verify(tmp_path / "model", full=True, replay=replay))


@pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # little training
@pytest.mark.parametrize("predictor", ["best", "drawn", "vote"])
def test_networks_of_ours_come_back(predictor, tmp_path):
    x, y = numbers(200)
    small = {"widths": (5,), "epochs": 2, "prior_epochs": 4, "votes": 9, "random_state": 0}
    network = PACBayesClassifier(**small, predictor=predictor)
    scaled = make_pipeline(MinMaxScaler(), PACBayesClassifier(**small, preprocessing=None))
    candidates = {"network": network, "scaled": scaled, "linear": LogisticRegression()}
    model = CertifiedClassifier(candidates=candidates, random_state=0).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model", x)
    again = pacbayes.load(tmp_path / "model")
    for name, candidate in model.candidates_.items():
        np.testing.assert_array_equal(again.candidates_[name].predict(x), candidate.predict(x))
        probability = candidate.predict_proba(x)
        np.testing.assert_array_equal(again.candidates_[name].predict_proba(x), probability)
    all_hold(verify(tmp_path / "model", full=True, replay=replay))


def test_a_withheld_certificate_is_not_saved(tmp_path):
    x, y = numbers(100)
    twice = np.tile(x, (2, 1)), np.tile(y, 2)
    with pytest.warns(pacbayes.CertificateWarning, match="no certificate"):
        model = CertifiedClassifier(candidates=FAST, random_state=0).fit(*twice)
    model.save(tmp_path / "model")
    assert pacbayes.load(tmp_path / "model").certificate_ is None
    with pytest.raises(ValueError, match=r"certificate\.json does not exist"):
        list(verify(tmp_path / "model"))


def test_texts_that_are_no_table_come_back(tmp_path):
    from sklearn.feature_extraction.text import CountVectorizer

    texts = [f"{'good' if i % 2 else 'bad'} {i}" for i in range(60)]
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    model = CertifiedClassifier(pipeline, random_state=0).fit(texts, np.arange(60) % 2)
    model.save(tmp_path / "model")
    again = pacbayes.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(texts), model.predict(texts))
    with pytest.raises(ValueError, match="has no copy of the data"):
        list(verify(tmp_path / "model", full=True, replay=replay))
    with pytest.raises(ValueError, match="X of type list cannot be stored; save without X"):
        model.save(tmp_path / "other", texts)
    assert not (tmp_path / "other").exists()


def test_a_folder_is_replaced_only_by_its_own_kind(fitted, saved):
    model, _, _ = fitted
    model.save(saved)  # without features now
    assert sorted(path.name for path in saved.iterdir()) == [
        "certificate.json",
        "evidence.safetensors",
        "models.skops",
        "run.json",
    ]
    (saved / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"has other files \(thesis\.txt\)"):
        model.save(saved)
    assert (saved / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_other_features_are_not_stored(fitted, tmp_path):
    model, x, _ = fitted
    with pytest.raises(ValueError, match="not the features that the classifier was fitted to"):
        model.save(tmp_path / "model", x + 1)
    assert not any(tmp_path.iterdir())


def test_run_json_names_kind_format_hashes_and_versions(saved):
    record = json.loads((saved / "run.json").read_text())
    assert record["kind"] == "classifier"
    assert record["format"] == 1
    assert record["files"].keys() == {"models.skops", "evidence.safetensors", "data.npz"}
    assert {"pacbayes", "scikit-learn", "skops"} <= record["versions"].keys()


def test_a_damaged_file_is_not_loaded(saved):
    path = saved / "models.skops"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match=r"models\.skops is damaged: its hash"):
        pacbayes.load(saved)


class Own(ClassifierMixin, BaseEstimator):
    """A classifier that nobody else knows."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


def test_a_class_of_ones_own_is_loaded_only_if_trusted(tmp_path):
    x, y = numbers()
    model = CertifiedClassifier(Own(), random_state=0).fit(x, y)
    name = f"{Own.__module__}.Own"
    with pytest.warns(UserWarning, match=r"Own is not among the types that load trusts"):
        model.save(tmp_path / "model", x)
    with pytest.raises(ValueError, match=r"holds .*Own, which is not trusted; .*trusted="):
        pacbayes.load(tmp_path / "model")
    again = pacbayes.load(tmp_path / "model", trusted=[name])
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_a_folder_of_no_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run\.json"):
        pacbayes.load(tmp_path)
    (tmp_path / "run.json").write_text('{"kind": "dream"}')
    with pytest.raises(ValueError, match="kind 'dream' is unknown"):
        pacbayes.load(tmp_path)
