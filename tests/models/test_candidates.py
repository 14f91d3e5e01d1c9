"""Candidates, their shares of δ, their mean, and their weighted vote."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from pacbayes import bounds
from pacbayes.models.candidates import (
    MEAN,
    MeanOfProbabilities,
    WeightedVote,
    best_vote,
    default_candidates,
    mean_weights,
    named,
    shares,
)

PRIOR = [0.2, 0.3, 0.5]


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


@pytest.fixture(scope="module")
def wrong():
    return np.random.default_rng(0).random((3, 400)) < [[0.1], [0.12], [0.3]]


def risk(wrong, weights, theorem, units):
    """Enumerate candidates, or pairs of them, and average over units of equal weight."""
    size = 2 if theorem == "tandem" else 1
    total = 0.0
    for chosen in itertools.product(range(3), repeat=size):
        err = np.all(wrong[list(chosen)], axis=0)
        total += np.prod(weights[list(chosen)]) * np.mean([err[unit].mean() for unit in units])
    return total


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("theorem", ["first-order", "tandem"])
def test_the_bound_is_the_theorem_at_the_weights(wrong, theorem, grouped):
    groups = np.arange(400) ** 2 // 800 if grouped else None
    vote = best_vote(wrong, groups, PRIOR, 0.02, theorem)
    labels = np.arange(400) if groups is None else groups
    units = [labels == g for g in np.unique(labels)]
    expected = risk(wrong, vote.weights, theorem, units)
    kl = sum(w * np.log(w / p) for w, p in zip(vote.weights, PRIOR, strict=True) if w)
    function = {"first-order": bounds.first_order, "tandem": bounds.tandem}[theorem]
    assert vote.risk == pytest.approx(expected, rel=1e-9)
    assert vote.kl == pytest.approx(kl, abs=1e-9)
    assert vote.bound == pytest.approx(function(expected, max(0, kl), len(units), 0.02), rel=1e-6)
    assert vote.bound >= function(expected, max(0, kl), len(units), 0.02)


@pytest.mark.parametrize("theorem", ["first-order", "tandem"])
def test_no_other_weights_do_better(wrong, theorem):
    best = best_vote(wrong, None, PRIOR, 0.02, theorem)
    function = {"first-order": bounds.first_order, "tandem": bounds.tandem}[theorem]
    units = [np.arange(400) == i for i in range(400)]
    rng = np.random.default_rng(1)
    for weights in rng.dirichlet(np.ones(3), 20):
        kl = float((weights * np.log(weights / PRIOR)).sum())
        assert best.bound <= function(risk(wrong, weights, theorem, units), kl, 400, 0.02) + 1e-6


class Constant:
    def __init__(self, label):
        self.label = label

    def predict(self, X):
        return np.full(len(X), self.label)


def test_the_vote_goes_by_weight():
    members = [Constant("a"), Constant("b"), Constant("b")]
    classes = np.array(["a", "b"])
    vote = WeightedVote(members, np.array([0.6, 0.2, 0.2]), classes)
    assert vote.predict([0, 0]).tolist() == ["a", "a"]
    np.testing.assert_allclose(vote.predict_proba([0]), [[0.6, 0.4]])
    assert WeightedVote(members, np.array([0.4, 0.3, 0.3]), classes).predict([0]) == ["b"]
