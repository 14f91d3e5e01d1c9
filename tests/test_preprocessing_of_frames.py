"""Preprocessing gets examples as they come: data frames, texts, missing values."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pacbayes import CertificateWarning, CertifiedClassifier, PACBayesClassifier, load
from pacbayes.data import DataError

pytestmark = pytest.mark.filterwarnings("ignore:The certificate of")
SMALL = {"prior_epochs": 50, "random_state": 0, "repeats": True}


def table(n=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["Ulm", "Bonn"], n), "size": rng.normal(size=n)})
    y = np.where((frame["town"] == "Ulm") + frame["size"] > 0.5, "good", "bad")
    frame.loc[3, "size"] = np.nan
    return frame, y


def columns():
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]),
    )


class Seen(TransformerMixin, BaseEstimator):
    """Keep what `fit` and `transform` get."""

    def fit(self, X, y=None):
        self.fitted_ = X
        return self

    def transform(self, X):
        self.last_ = X
        return np.zeros((len(X), 1)) + 0.5


def test_a_column_transformer_takes_texts_and_missing_values():
    frame, y = table()
    model = PACBayesClassifier(preprocessing=columns(), **SMALL).fit(frame, y)
    assert model.certificate_.bound < 0.3
    assert model.score(frame, y) > 0.8
    swapped = frame.assign(town=frame["town"].map({"Ulm": "Bonn", "Bonn": "Ulm"}))
    assert (model.predict(swapped) != model.predict(frame)).mean() > 0.1  # the texts count
    as_category = frame.astype({"town": "category", "size": object})
    np.testing.assert_array_equal(model.predict(as_category), model.predict(frame))
    with pytest.raises(DataError, match=r"column 'town'.* is a number, but"):
        model.predict(frame.assign(town=1))


def test_examples_reach_the_transformer_as_they_came():
    frame, y = table()
    model = PACBayesClassifier(preprocessing=Seen(), **SMALL).fit(frame, y)
    own = np.setdiff1d(np.arange(len(y)), model.bound_set_)
    pd.testing.assert_frame_equal(model.preprocessing_.fitted_.sort_index(), frame.iloc[own])
    model.predict(frame)
    pd.testing.assert_frame_equal(model.preprocessing_.last_, frame)
    texts = frame["town"].tolist()
    model = PACBayesClassifier(preprocessing=Seen(), **SMALL).fit(texts, y)
    assert sorted(model.preprocessing_.fitted_) == sorted(texts[i] for i in own)


def test_arrays_of_numbers_come_in_float64_and_may_lack_some():
    frame, y = table()
    x = frame[["size"]].to_numpy(np.float32)
    model = PACBayesClassifier(preprocessing=SimpleImputer(), **SMALL).fit(x, y)
    assert model.preprocessing_.statistics_.dtype == np.float64
    assert len(model.predict(x)) == len(y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        PACBayesClassifier(**SMALL).fit(x, y)


def test_copies_are_found_in_texts():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcdef"), 8)) for _ in range(100)] * 2
    y = np.array([text.count("a") > 1 for text in texts])
    with pytest.warns(CertificateWarning, match="100 of 200 examples are duplicates"):
        model = PACBayesClassifier(
            preprocessing=CountVectorizer(token_pattern=".", lowercase=False),
            prior_epochs=20,
            random_state=0,
        ).fit(texts, y)
    assert model.certificate_ is None


def test_such_a_network_is_saved_within_a_certified_classifier_alone(tmp_path):
    frame, y = table()
    model = PACBayesClassifier(preprocessing=columns(), **SMALL)
    with pytest.raises(ValueError, match="ColumnTransformer cannot be kept in a run folder"):
        model.fit(frame, y).save(tmp_path / "run", frame, y)
    certified = CertifiedClassifier(clone(model), random_state=0, repeats=True).fit(frame, y)
    certified.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for there in (frame, frame.astype({"town": "category"})):
        np.testing.assert_array_equal(again.predict(there), certified.predict(frame))
