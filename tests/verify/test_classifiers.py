"""Exact counts agree with counting by hand, and with what the issuer counts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbayes.losses.bounded import loss_of, of_units
from pacbayes.verify.classifiers import Votes, count, errors_together

COSTS = ((0.0, 0.1, 3.0), (1.0, 0.0, 0.7), (2.0, 1.0, 0.0))


def votes(labels, predicted, groups=None, answers=None, costs=None):
    arrays = (None if a is None else np.array(a) for a in (labels, predicted, groups, answers))
    return Votes(*arrays, costs, ("a", "b", "c"))


def test_errors_of_examples_are_counted():
    found = count(votes([0, 1, 2, 0], [0, 2, 2, -1]), "all")
    assert (found.total, found.n, found.scale, found.theorem) == (2, 4, 1, "held-out")


def test_claims_count_their_own_examples():
    v = votes([0, 1, 1, 0], [0, 0, 1, 1], answers=[True, True, False, True])
    assert (count(v, "class b").total, count(v, "class b").n) == (1, 2)
    assert (count(v, "answered").total, count(v, "answered").n) == (2, 3)
    assert (count(v, "unanswered").total, count(v, "unanswered").n) == (1, 4)
    assert (count(v, "class c").total, count(v, "class c").n) == (0, 0)


def test_groups_count_by_their_mean():
    found = count(votes([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], groups=[5, 5, 5, 7, 9]), "all")
    assert (found.total, found.n) == (Fraction(1, 3) + 1, 3)
    assert found.theorem == "kl-chernoff"


@pytest.mark.parametrize("costs", [None, COSTS])
@given(st.data())
def test_counts_agree_with_the_issuer(costs, data):
    n = data.draw(st.integers(1, 30))
    labels = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    predicted = data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    groups = data.draw(st.none() | st.lists(st.integers(0, 5), min_size=n, max_size=n))
    found = count(votes(labels, predicted, groups, costs=costs), "all")
    loss = loss_of(np.arange(3), costs)
    each = of_units(
        loss(np.array(predicted), np.array(labels)), None if groups is None else np.array(groups)
    )
    assert found.n == len(each)
    assert float(found.total) == pytest.approx(each.sum())
    assert float(found.scale) == loss.scale


def test_two_candidates_err_together():
    wrong = np.array([[True, True, False, False], [True, False, True, False]])
    rho = [Fraction(1, 4), Fraction(3, 4)]
    assert errors_together(wrong, None, rho, tandem=False) == (Fraction(1, 2), 4)
    both = Fraction(1, 16) * 2 + Fraction(9, 16) * 2 + 2 * Fraction(3, 16) * 1
    assert errors_together(wrong, None, rho, tandem=True) == (both / 4, 4)
