"""What can be seen not to be a sample, and what must not be taken for that."""

import numpy as np
import pytest
from sklearn import datasets, preprocessing

from pacbayes.data import neighbours
from pacbayes.data.sample import (
    FittedError,
    NoSampleError,
    check_sample,
    check_split,
    near_copies,
)

LOADERS = [
    datasets.load_breast_cancer,
    datasets.load_digits,
    datasets.load_iris,
    datasets.load_wine,
]
SCALERS = [
    preprocessing.StandardScaler(),
    preprocessing.MinMaxScaler(),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.PowerTransformer(),
    preprocessing.MinMaxScaler((-1, 1)),
    preprocessing.StandardScaler(with_mean=False),
]


def check(x, *, repeats=True):
    return check_sample(np.asarray(x), np.zeros(len(x)), repeats=repeats)


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_scaled_by_all_of_them_are_seen(scaler, dtype):
    x, _ = datasets.load_breast_cancer(return_X_y=True)
    with pytest.raises(FittedError, match="on the training set"):
        check(scaler.fit_transform(x).astype(dtype))
    few = scaler.fit(x[:300]).transform(x).astype(dtype)
    check(few)  # fitted to some of them, it cannot be seen


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_data_as_they_come_are_taken(load):
    x, _ = load(return_X_y=True)
    check(x)
    check(x / 255)
    check(np.sign(x - x.mean()))
    check(np.clip(x / np.median(x[x > 0]), 0, 1))


def test_categories_beside_them_hide_nothing():
    x, y = datasets.load_breast_cancer(return_X_y=True)
    for scaler in SCALERS:
        with pytest.raises(FittedError):
            check(np.column_stack([scaler.fit_transform(x[:, :6]), np.eye(2)[y]]))
    with pytest.raises(FittedError, match="mean zero"):
        check(np.column_stack([x[:, :6] - x[:, :6].mean(0), np.eye(2)[y]]))


def test_natural_ranges_and_signs_are_taken():
    rng = np.random.default_rng(0)
    check(np.eye(5)[rng.integers(0, 5, 200)])  # one-hot
    check(rng.integers(0, 2, (200, 4)) * 2.0 - 1)
    check(rng.random((200, 4)))  # nearly [0, 1]
    check(rng.normal(size=(200, 4)))
    check(rng.poisson(2, (200, 4)))
    check(np.round(rng.random((200, 4)), 1))  # both ends, many times
    check(np.column_stack([np.linspace(0, 1, 200), rng.normal(size=200)]))


def test_what_occurs_again_is_seen_unless_it_is_said_to():
    x = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(NoSampleError, match="10 of 110 examples are duplicates"):
        check(np.concatenate([x, x[:10]]), repeats=False)
    check(np.concatenate([x, x[:10]]))


def halves(x):
    return np.arange(0, len(x), 2), np.arange(1, len(x), 2)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_smooth_densities_have_hardly_any_near_copies(d):
    rng = np.random.default_rng(d)
    x = rng.normal(size=(4000, d)) * 10.0 ** np.arange(d)  # scales that differ
    assert near_copies(x, np.arange(2000), np.arange(2000, 4000)) < 0.03


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: load.__name__)
def test_natural_tables_have_hardly_any_near_copies(load):
    x, _ = load(return_X_y=True)
    x = np.random.default_rng(0).permutation(x)
    assert near_copies(x, *halves(x)) < 0.03


@pytest.mark.parametrize("copies", [2, 5, 40])
@pytest.mark.parametrize("scaled", [False, True])
def test_copies_with_a_little_noise_are_seen(copies, scaled):
    """In pixels, and in features whose scales differ by orders of magnitude."""
    rng = np.random.default_rng(copies)
    few = datasets.load_digits().data[: 2000 // copies] / 16
    if scaled:
        few = rng.normal(size=(2000 // copies, 6)) * 10.0 ** np.arange(6)
    x = rng.permutation(np.repeat(few, copies, axis=0))
    x = x + 0.005 * x.std(0).clip(0.3) * rng.normal(size=x.shape)
    assert near_copies(x, *halves(x)) > 0.4
    with pytest.raises(NoSampleError, match="near copies of the prior's examples"):
        check_split(x, *halves(x), repeats=False)
    (remark,) = check_split(x, *halves(x), repeats=True)
    assert "near copies" in remark


def test_a_fifth_of_near_copies_is_the_limit():
    rng = np.random.default_rng(0)
    own, new = rng.normal(size=(600, 5)), rng.normal(size=(600, 5))
    for share, refused in ((0.1, False), (0.3, True)):
        bound = np.where(rng.random((600, 1)) < share, own + 1e-4, new)
        x, parts = np.concatenate([own, bound]), (np.arange(600), np.arange(600, 1200))
        if refused:
            with pytest.raises(NoSampleError, match=r"\(at most 20 % are allowed\)"):
                check_split(x, *parts, repeats=False)
        else:
            assert "near copies" in check_split(x, *parts, repeats=False)[0]
    same = np.arange(600)
    assert check_split(own, same, same, repeats=False) == []  # exact copies are counted elsewhere


@pytest.mark.parametrize("copies", [1, 2])
def test_near_copies_are_found_in_blocks_and_ranked_among_some(copies, monkeypatch):
    """As against all pairs of distances at once."""
    rng = np.random.default_rng(copies)
    x = rng.permutation(np.repeat(rng.normal(size=(4000 // copies, 4)), copies, axis=0))
    x += 1e-4 * rng.normal(size=x.shape)
    whole = near_copies(x, *halves(x))
    monkeypatch.setattr(neighbours, "_RANKED", 300)
    monkeypatch.setattr(neighbours, "_TOGETHER", 7)
    monkeypatch.setattr(neighbours, "_parts", lambda index, width: np.array_split(index, 9))
    assert near_copies(x, *halves(x)) == pytest.approx(whole, abs=0.03)
    assert whole == pytest.approx(0.5 * (copies - 1), abs=0.05)


def test_repeats_within_a_group_do_not_count():
    x = np.random.default_rng(0).normal(size=(100, 3)).repeat(2, axis=0)
    y, groups = np.zeros(200, int), np.arange(200) // 2
    assert check_sample(x, y, repeats=False, groups=groups) == []
    with pytest.raises(NoSampleError, match="100 of 200 examples are duplicates"):
        check_sample(x, y, repeats=False, groups=np.arange(200))
