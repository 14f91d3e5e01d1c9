"""Examples as arrays, checked once."""

import numpy as np
import pytest

from pacbayes.data import DataError, Dataset, dataset, load


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
