"""Examples as arrays, checked once."""

import hashlib

import numpy as np
import pytest

from pacbayes import CertifiedClassifier, PACBayesClassifier
from pacbayes.data import DataError, Dataset, load, values
from pacbayes.data.dataset import check_features, class_indices, classes_of, first_of_each


def test_hash_sees_every_bit_of_the_training_part():
    data = load("digits")
    x = data.x_train.copy()
    x[-1, -1] += np.float32(1e-6)
    parts = (data.x_test, data.y_test, data.classes)
    assert Dataset("d", x, data.y_train, *parts).train_sha256 != data.train_sha256
    y = data.y_train.copy()
    y[0] = 1 - y[0]
    assert Dataset("d", data.x_train, y, *parts).train_sha256 != data.train_sha256


def test_nan_labels_are_refused():
    with pytest.raises(DataError, match="not a finite number"):
        class_indices(np.array([0.0, 1.0, np.nan]), "here")


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (40, 3)).astype(np.float32), np.arange(40) % 2
    data = Dataset("blocks", x, y, x[:0], y[:0], ("a", "b"))
    whole = data.train_sha256, first_of_each(x, y).tolist()
    assert whole[0] == hashlib.sha256(x.tobytes() + y.astype("<i8").tobytes()).hexdigest()
    firsts = {
        (row.tobytes(), label): i
        for i, (row, label) in reversed([*enumerate(zip(x, y, strict=True))])
    }
    assert whole[1] == sorted(firsts.values())
    monkeypatch.setattr(values, "_NUMBERS", 10)
    assert (data.train_sha256, first_of_each(x, y).tolist()) == whole
    x[17, 2] = np.nan
    with pytest.raises(DataError, match="nan in example 17, feature 2"):
        check_features(x, "blocks")


X = np.random.default_rng(0).normal(size=(60, 2))
SURROGATE = np.array(["ill", "\udcff"] * 30)
MIXED = np.array([1, "ill"] * 30, dtype=object)


def test_labels_are_indices_among_the_classes():
    classes, index = classes_of(np.array(["b", "a", "b"]))
    assert classes.tolist() == ["a", "b"]
    assert classes[index].tolist() == ["b", "a", "b"]


@pytest.mark.parametrize("model", [CertifiedClassifier(), PACBayesClassifier()])
@pytest.mark.parametrize(
    ("y", "says"),
    [
        (SURROGATE, r"'\\udcff' is not valid Unicode"),
        (MIXED, "all texts or all numbers, got int, s"),
    ],
)
def test_labels_without_an_order_or_an_encoding_are_refused(model, y, says):
    with pytest.raises(ValueError, match=says):
        model.fit(X, y)
