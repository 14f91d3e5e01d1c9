"""Candidates have names, and shares of δ that never exceed it."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pacbayes.models.candidates import (
    MEAN,
    MeanOfProbabilities,
    default_candidates,
    mean_weights,
    named,
    shares,
)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 49, 1000])
def test_shares_add_up_to_at_most_one(count):
    found = shares([str(i) for i in range(count)], None)
    assert 1 - 1e-12 < sum(map(Fraction, found)) <= 1
    assert len(set(found)) == 1
    rng = np.random.default_rng(count)
    assert sum(map(Fraction, shares(list(map(str, range(count))), list(rng.random(count))))) <= 1


def test_the_mean_gets_most_of_delta():
    found = shares(["a", "b", MEAN], None)
    assert found == pytest.approx([0.05, 0.05, 0.9])


def test_stated_shares_may_be_named_or_in_order_and_need_not_add_up_to_one():
    assert shares(["a", "b"], {"b": 3, "a": 1}) == pytest.approx([0.25, 0.75])
    assert shares(["a", "b"], [1, 3]) == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize("given", [[1.0], {"a": 1.0}, {"a": 1.0, "c": 1.0}, [1.0, 0.0], [1, -1]])
def test_wrong_shares_are_refused(given):
    with pytest.raises(ValueError, match="shares must"):
        shares(["a", "b"], given)


def test_candidates_have_names():
    a, b = LogisticRegression(), GaussianNB()
    assert list(named(None, [a, b], 0)) == ["1 LogisticRegression", "2 GaussianNB"]
    assert named(None, {"x": a}, 0) == {"x": a}
    assert list(named(a, None, 0)) == ["LogisticRegression"]
    assert list(named(None, None, 0)) == list(default_candidates(0))


@pytest.mark.parametrize("wrong", [[], {}, 3, {MEAN: GaussianNB()}])
def test_wrong_candidates_are_refused(wrong):
    with pytest.raises(ValueError, match=r"candidates|mean"):
        named(None, wrong, 0)
    with pytest.raises(ValueError, match="either estimator or candidates"):
        named(GaussianNB(), [GaussianNB()], 0)


def test_the_mean_has_a_column_for_every_class_even_if_a_member_never_saw_it():
    x, y = np.array([[0.0], [1.0], [2.0], [0.1], [1.1], [2.1]]), np.array([0, 1, 2, 0, 1, 2])
    all_classes, two = GaussianNB().fit(x, y), GaussianNB().fit(x[y > 0], y[y > 0])
    mean = MeanOfProbabilities([all_classes, two], np.array([0, 1, 2]))
    p = mean.predict_proba(x)
    np.testing.assert_allclose(p[:, 0], all_classes.predict_proba(x)[:, 0] / 2)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(mean.predict(x), p.argmax(1))


def test_the_mean_weighs_its_members():
    x, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    members = [GaussianNB().fit(x, y), LogisticRegression().fit(x, y)]
    p, q = (member.predict_proba(x) for member in members)
    mean = MeanOfProbabilities(members, np.array([0, 1]), [1.0, 0.25])
    np.testing.assert_allclose(mean.predict_proba(x), 0.8 * p + 0.2 * q)


def test_the_linear_model_counts_less_among_many_examples():
    assert mean_weights(4000) == {"logistic regression": 0.25}
    assert mean_weights(10) == {"logistic regression": 1.0}
    assert mean_weights(10).keys() <= default_candidates(0).keys()
