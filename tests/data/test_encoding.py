"""Typed columns as numbers: constants of the prior's rows, applied to every row by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pacbayes.data import DataError
from pacbayes.data.encoding import (
    BooleanCode,
    CategoryCode,
    Encoding,
    NumberCode,
    fit_encoding,
    plain_encoding,
)
from pacbayes.data.frame import Column, Frame, Kind


def numbers(values, name="u"):
    return Column(name, Kind.NUMBER, np.array(values, np.float32))


def texts(values, name="v", kind=Kind.CATEGORY):
    words = tuple(sorted({v for v in values if v is not None}))
    codes = [-1 if v is None else words.index(v) for v in values]
    return Column(name, kind, np.array(codes, np.int32), words)


def some_frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.normal(5, 3, n).astype(np.float32)
    u[rng.random(n) < 0.1] = np.nan
    v = rng.choice(["red", "green", "blue", "mauve", None], n, p=[0.4, 0.3, 0.2, 0.02, 0.08])
    w = rng.choice(["yes", "no", None], n, p=[0.5, 0.4, 0.1])
    z = rng.normal(-1e3, 1e-2, n)
    return Frame((numbers(u), texts(v), texts(w, "w"), numbers(z, "z")))


def test_numbers_are_those_of_scikit_learn():
    frame = some_frame()
    x = np.stack([frame.columns[0].values, frame.columns[3].values], 1).astype(np.float64)
    own = np.arange(0, 200, 2)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(x[own])
    filled = imputer.transform(x)[:, :2]
    scaler = StandardScaler().fit(filled[own])
    encoding = fit_encoding(Frame((frame.columns[0], frame.columns[3])), own)
    features = encoding.apply(Frame((frame.columns[0], frame.columns[3])))
    assert encoding.names == ("u", "u is missing", "z")
    np.testing.assert_allclose(features[:, [0, 2]], scaler.transform(filled), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(features[:, 1], imputer.transform(x)[:, 2])
    first, second = encoding.columns
    np.testing.assert_allclose([first.mean, second.mean], scaler.mean_, rtol=1e-14)
    np.testing.assert_allclose([first.scale, second.scale], scaler.scale_, rtol=1e-9)


def test_categories_are_those_of_scikit_learn():
    v = some_frame(400).columns[1]
    own = np.arange(200)
    x = v.texts().reshape(-1, 1)  # a missing value is a category of its own
    oracle = OneHotEncoder(min_frequency=5, handle_unknown="ignore", sparse_output=False)
    oracle.fit(x[own])
    encoding = fit_encoding(Frame((v,)), own)
    features = encoding.apply(Frame((v,)))
    names = {name: features[:, i] for i, name in enumerate(encoding.names)}
    assert oracle.infrequent_categories_[0].tolist() == ["mauve"]
    order = ["v is missing", "v=blue", "v=green", "v=red", "v is rare"]
    assert set(names) == set(order)
    np.testing.assert_array_equal(np.stack([names[n] for n in order], 1), oracle.transform(x))


def test_the_most_frequent_categories_are_kept_and_unknown_ones_are_zero():
    v = texts([*"aaabbbbccccccde"])
    code = fit_encoding(Frame((v,)), range(15), least=2, most=2).columns[0]
    assert code == CategoryCode(name="v", categories=("b", "c"), rare=("a", "d", "e"))
    assert fit_encoding(Frame((v,)), range(15), least=3).columns[0].rare == ("d", "e")
    features = code.apply(texts(["c", "a", "e", "new", None]))
    assert features.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_truth_values_are_one_and_zero():
    code = fit_encoding(Frame((texts(["yes", "Yes", "NO", None]),)), range(4)).columns[0]
    assert code == BooleanCode(name="v", fill=True, missing=True)
    column = texts(["no", "yes", "true", "FALSE", "maybe", None])
    assert code.apply(column)[:, 0].tolist() == [0, 1, 1, 0, 1, 1]
    assert code.apply(column)[:, 1].tolist() == [0, 0, 0, 0, 0, 1]


@given(st.integers(0, 10**6), st.integers(1, 199))
def test_other_rows_change_nothing(seed, own):
    """Neither values nor kinds outside the prior's rows have any influence."""
    frame, other = some_frame(), some_frame(seed=seed)

    def mixed(mine, others):
        if mine.kind is Kind.NUMBER:
            return numbers([*mine.values[:own], *others.values[own:]], mine.name)
        words = [w or None for w in [*mine.texts()[:own], *others.texts()[own:-1], "surprise"]]
        return texts(words, mine.name)

    changed = Frame(tuple(map(mixed, frame.columns, other.columns)))
    try:
        fitted = fit_encoding(frame, range(own))
    except DataError as error:
        assert "has no value in the prior's part" in str(error)  # noqa: PT017
        return
    assert fit_encoding(changed, range(own)) == fitted
    assert fitted.apply(frame)[:own].tobytes() == fitted.apply(changed)[:own].tobytes()


def test_a_row_alone_is_encoded_as_in_the_batch():
    frame = some_frame()
    encoding = fit_encoding(frame, range(0, 200, 3))
    together = encoding.apply(frame)
    assert together.dtype == np.float32
    for i in range(len(frame)):
        assert encoding.apply(frame.take([i])).tobytes() == together[i].tobytes()


def test_the_order_of_rows_does_not_matter_to_the_last_bit():
    rng = np.random.default_rng(1)
    wild = numbers(rng.normal(size=200) * 10.0 ** rng.uniform(-9, 9, 200), "wild")
    frame = Frame((*some_frame().columns, wild))
    for _ in range(10):
        assert fit_encoding(frame, rng.permutation(200)) == fit_encoding(frame, range(200))


def test_an_encoding_survives_json():
    frame = some_frame()
    encoding = fit_encoding(frame, range(100))
    again = Encoding.model_validate_json(encoding.model_dump_json())
    assert again == encoding
    assert again.apply(frame).tobytes() == encoding.apply(frame).tobytes()
    assert again.kinds == {
        "u": Kind.NUMBER, "v": Kind.CATEGORY, "w": Kind.BOOLEAN, "z": Kind.NUMBER
    }  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        {"kind": "number", "name": "u", "scale": 0},
        {"kind": "number", "name": "u", "scale": -1},
        {"kind": "number", "name": "u", "mean": "nan"},
        {"kind": "number", "name": "u", "extra": 1},
        {"kind": "category", "name": "u", "categories": ["a", "a"]},
        {"kind": "category", "name": "u", "categories": ["a"], "rare": ["a"]},
        {"kind": "picture", "name": "u"},
    ],
)
def test_a_damaged_encoding_is_refused(column):
    with pytest.raises(ValidationError):
        Encoding.model_validate({"columns": [column]})


def test_a_table_without_columns_is_no_encoding():
    with pytest.raises(ValidationError):
        Encoding.model_validate({"columns": []})


def test_constant_columns_keep_their_scale():
    code = fit_encoding(Frame((numbers([0.1, 0.1, 0.1]),)), range(3)).columns[0]
    assert code.scale == 1
    assert code.apply(numbers([0.1])).tolist() == [[0]]


def test_without_rows_of_the_prior_only_plain_columns_are_accepted():
    u = numbers([1.5, -0.0, 3e38])
    w = texts(["false", "true", "true"], "w", Kind.BOOLEAN)
    frame = Frame((u, w))
    encoding = plain_encoding(frame)
    assert encoding.columns == (NumberCode(name="u"), BooleanCode(name="w"))
    features = encoding.apply(frame)
    assert features[:, 0].tobytes() == u.values.tobytes()
    assert features[:, 1].tolist() == [0, 1, 1]
    for column, what in [
        (texts(["a", "b", "a"]), "categories"),
        (numbers([1, np.nan, 2], "v"), "missing values"),
    ]:
        with pytest.raises(DataError, match=rf"'v' has {what}, .*--prior-fraction 0.5.*--drop v"):
            plain_encoding(Frame((u, column)))


def test_what_cannot_be_fitted_or_applied_is_refused():
    frame = Frame((numbers([np.nan, 1.0]), texts(["a", None])))
    with pytest.raises(DataError, match=r"'u' has no value in the prior's part.*--drop u"):
        fit_encoding(frame, [0])
    with pytest.raises(DataError, match=r"'v' has no value in the prior's part.*--drop v"):
        fit_encoding(frame, [1])
    with pytest.raises(DataError, match="fitted to the prior's rows, but there are none"):
        fit_encoding(frame, [])
    encoding = fit_encoding(frame, [0, 1])
    with pytest.raises(DataError, match="new: no column 'v', which the training set has"):
        encoding.apply(Frame((frame.columns[0],)), "new")
    with pytest.raises(DataError, match="column 'u' has texts, but had numbers"):
        encoding.apply(Frame((texts(["a"], "u"), texts(["a"]))))
    with pytest.raises(DataError, match="column 'v' has numbers, but had texts"):
        encoding.apply(Frame((numbers([1]), numbers([1], "v"))))
    tiny = Encoding(columns=(NumberCode(name="u", scale=1e-30),))
    with pytest.raises(DataError, match="inf in example 0, feature 0"):
        tiny.apply(Frame((numbers([1e30]),)))
