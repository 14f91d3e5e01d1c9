"""Examples as arrays, checked once."""

import hashlib

import numpy as np
import pytest

from pacbayes.data import DataError, Dataset, dataset, load
from pacbayes.data.dataset import check_features, first_of_each


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
        dataset.class_indices(np.array([0.0, 1.0, np.nan]), "here")


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
    monkeypatch.setattr(dataset, "_NUMBERS", 10)
    assert (data.train_sha256, first_of_each(x, y).tolist()) == whole
    x[17, 2] = np.nan
    with pytest.raises(DataError, match="nan in example 17, feature 2"):
        check_features(x, "blocks")
