"""The table of named data sets."""

import numpy as np
import pytest

from pacbayes.data import DATASETS, NAMES, DataError, load


def test_digits_are_two_halves_with_a_fixed_split():
    data = load("digits")
    assert data.x_train.shape == (1438, 64)
    assert data.x_test.shape == (359, 64)
    assert data.x_train.min() == 0
    assert data.x_train.max() == 1
    assert set(data.signs().tolist()) == {-1.0, 1.0}
    assert data.classes == ("0-4", "5-9")
    assert load("digits").train_sha256 == data.train_sha256
    from sklearn.datasets import load_digits

    x, digits = load_digits(return_X_y=True)
    assert (data.signs("test") == np.where(digits[4::5] >= 5, 1, -1)).all()
    assert (load("ten-digits").y_test == digits[4::5]).all()
    assert (data.x_test == (x[4::5] / 16).astype(np.float32)).all()


@pytest.mark.parametrize("name", ["binary-mnist", "mnist", "binary-fashion-mnist"])
def test_images_are_scaled_and_halved(name, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    labels = np.arange(20, dtype=np.uint8) % 10
    asked = []

    def fetch(collection, folder):
        asked.append(collection.name)
        return [images, labels, images[:5], labels[:5]]

    monkeypatch.setattr("pacbayes.data.named.fetch", fetch)
    data = load(name)
    assert asked == ["fashion-mnist" if "fashion" in name else "mnist"]
    assert data.x_train.shape == (20, 784)
    assert np.allclose(data.x_train[3], images[3].ravel() / 255)
    if name == "mnist":
        assert data.y_train.tolist() == labels.tolist()
        with pytest.raises(DataError, match="has 10 classes"):
            data.signs()
    else:
        assert (data.signs() == np.where(labels >= 5, 1, -1)).all()


def test_ten_digits_are_the_same_images_with_ten_classes():
    two, ten = load("digits"), load("ten-digits")
    assert (two.x_train == ten.x_train).all()
    assert ((ten.y_train >= 5) == two.y_train).all()
    assert ten.classes == tuple("0123456789")


def test_the_table_says_what_the_data_are():
    assert tuple(DATASETS) == NAMES
    binary = [name for name in NAMES if DATASETS[name].binary]
    assert binary == ["binary-mnist", "binary-fashion-mnist", "digits"]
    assert {name for name in NAMES if not DATASETS[name].takes_folder} == {"digits", "ten-digits"}
    for name in ("digits", "ten-digits"):
        assert load(name).classes == DATASETS[name].classes


def test_the_bits_of_the_bundled_digits_do_not_change():
    assert load("digits").train_sha256.startswith("de6ef18cbc54778a")
    assert load("ten-digits").train_sha256.startswith("6276fa87f62afdba")
