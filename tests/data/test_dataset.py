"""Data sets by name and from files, checked once."""

import numpy as np
import pytest

from pacbayes.data import DataError, Dataset, dataset, idx, load


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

    digits = load_digits().target
    assert (data.signs("test") == np.where(digits[4::5] >= 5, 1, -1)).all()


@pytest.mark.parametrize("name", ["binary-mnist", "mnist", "binary-fashion-mnist"])
def test_images_are_scaled_and_halved(name, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    labels = np.arange(20, dtype=np.uint8) % 10
    asked = []

    def fetch(collection, folder):
        asked.append(collection.name)
        return [images, labels, images[:5], labels[:5]]

    monkeypatch.setattr("pacbayes.data.fetch", fetch)
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


def test_own_files_with_a_test_part(tmp_path):
    train, test = tmp_path / "a.csv", tmp_path / "b.csv"
    train.write_text("".join(f"{i},{i * i},{'dog' if i % 2 else 'cat'}\n" for i in range(10)))
    test.write_text("1,1,dog\n2,4,cat\n")
    data = load(str(train), test=test)
    assert data.classes == ("cat", "dog")
    assert data.signs("test").tolist() == [1.0, -1.0]
    test.write_text("1,1,cow\n")
    with pytest.raises(DataError, match="'cow' is not among cat, dog"):
        load(str(train), test=test)
    test.write_text("1,dog\n")
    with pytest.raises(DataError, match="test examples have 1 features"):
        load(str(train), test=test)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 9, r"take 1 values \(a\), need 2 to 100"),
        ([*range(101)] * 2, r"take 101 values \(0, 1, 10, 100, 11…\), need 2 to 100"),
    ],
)
def test_labels_that_are_no_classes_are_refused(tmp_path, labels, message):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    with pytest.raises(DataError, match=message):
        load(str(path))


def test_too_few_examples_no_labels_and_unknown_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,a\n2,b\n3,a\n")
    with pytest.raises(DataError, match="has 3 training examples, need 8"):
        load(str(path))
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 2)))
    with pytest.raises(DataError, match="no labels"):
        load(str(tmp_path / "a.npz"))
    with pytest.raises(DataError, match="no data set 'mnst'; did you mean 'mnist'"):
        load("mnst")
    with pytest.raises(DataError, match="no data set 'wine'; give one of binary-mnist"):
        load("wine")


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


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("PACBAYES_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert idx.cache_folder() == tmp_path / "pacbayes"
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "own"))
    assert idx.cache_folder() == tmp_path / "own"
