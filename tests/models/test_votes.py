"""A vote of finitely many candidates: its weights, its losses and its bounds."""

import itertools

import numpy as np
import pytest

from pacbayes import bounds
from pacbayes.models.votes import WeightedVote, best_vote

PRIOR = [0.2, 0.3, 0.5]


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
