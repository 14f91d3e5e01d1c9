"""Preprocessing by the prior's part alone, of each example by itself."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from pacbayes.data.preprocessing import TableEncoder, fitted, refuse_batch_effects, transformed
from pacbayes.data.values import is_missing

X = np.random.default_rng(0).normal(5, 2, (40, 3))
NONE = X[:0]


def test_auto_standardises_by_the_priors_part_and_does_nothing_without_one():
    np.testing.assert_allclose(fitted("auto", X[:10]).mean_, X[:10].mean(0))
    assert fitted("auto", NONE) is None
    assert fitted(None, X) is None


def test_the_transformer_given_stays_unfitted():
    given = StandardScaler()
    fitted(given, X)
    assert not hasattr(given, "mean_")


def test_without_a_part_only_what_needs_no_fit_is_taken():
    assert isinstance(fitted(Normalizer(), NONE), Normalizer)
    with pytest.raises(ValueError, match="StandardScaler must be fitted to the prior's part"):
        fitted(StandardScaler(), NONE)


def test_features_are_dense_float32_and_finite():
    sparse = FunctionTransformer(csr_matrix)
    np.testing.assert_array_equal(transformed(sparse, X).numpy(), X.astype(np.float32))
    with pytest.raises(ValueError, match="too large for float32"):
        transformed(None, X * 1e300)


def test_each_example_must_be_transformed_by_itself():
    refuse_batch_effects(fitted(StandardScaler(), X), X)
    refuse_batch_effects(None, X)
    with pytest.raises(ValueError, match="FunctionTransformer gives a different result"):
        refuse_batch_effects(FunctionTransformer(lambda a: a - a.mean(0)), X)


def table():
    return pd.DataFrame(
        {
            "age": [30.0, np.nan, 41.0, 22.0] * 5,
            "city": ["Rome", None, "Oslo", "Rome"] * 5,
            "member": [True, False, True, True] * 5,
            "since": pd.to_datetime(["2020-01-01", None, "2021-01-01", "2022-01-01"] * 5),
            "visits": pd.array([1, None, 3, 4] * 5, dtype="Int64"),
        }
    )


def test_numbers_stay_and_categories_become_indicators():
    coded = TableEncoder().fit_transform(table())
    assert coded.shape == (20, 4 + 3)  # Oslo, Rome and missing
    np.testing.assert_array_equal(coded[:4, 0], [30, np.nan, 41, 22])
    np.testing.assert_array_equal(coded[:4, 1], [1, 0, 1, 1])
    np.testing.assert_array_equal(coded[:4, 3], [1, np.nan, 3, 4])
    np.testing.assert_array_equal(coded[:, 4:].sum(1), np.ones(20))
    np.testing.assert_array_equal(coded[0, 4:], coded[3, 4:])
    assert np.isnan(coded[1, 2])


def test_a_data_frame_and_an_array_of_objects_are_the_same_table():
    frame = table()[["age", "city", "member"]]
    np.testing.assert_array_equal(
        TableEncoder().fit_transform(frame), TableEncoder().fit_transform(frame.to_numpy(object))
    )


def test_rare_and_unknown_categories_share_an_indicator():
    known = np.array([["a"]] * 9 + [["b"]] * 9 + [["c"]] * 2, dtype=object)
    encoder = TableEncoder(min_frequency=5).fit(known)
    coded = encoder.transform(np.array([["a"], ["c"], ["new"]], dtype=object))
    np.testing.assert_array_equal(coded, [[1, 0, 0], [0, 0, 1], [0, 0, 1]])


def test_what_is_not_a_number_in_a_numeric_column_is_missing():
    encoder = TableEncoder().fit(np.array([[1.0], [2.0]]))
    coded = encoder.transform(np.array([[3], ["?"], [None]], dtype=object))
    np.testing.assert_array_equal(coded, [[3], [np.nan], [np.nan]])


def test_an_example_is_encoded_the_same_alone_and_in_company():
    encoder = TableEncoder().fit(table())
    together = encoder.transform(table())
    for i in range(4):
        np.testing.assert_array_equal(encoder.transform(table()[i : i + 1])[0], together[i])


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_missing_values_are_known(value):
    assert is_missing(value)
    assert not is_missing("nan")
    assert not is_missing(0)


@pytest.mark.parametrize(
    ("x", "message"),
    [(np.zeros(3), "rows and columns"), (np.zeros((3, 1), complex), "Complex data not supported")],
)
def test_what_is_no_table_is_refused(x, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(x)


def test_another_number_of_columns_is_refused():
    with pytest.raises(ValueError, match="X has 3 columns, but 2 were fitted"):
        TableEncoder().fit(np.zeros((4, 2))).transform(np.zeros((4, 3)))
