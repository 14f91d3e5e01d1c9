"""Preprocessing by the prior's part alone, of each example by itself."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from pacbayes.data.preprocessing import fitted, refuse_batch_effects, transformed

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
