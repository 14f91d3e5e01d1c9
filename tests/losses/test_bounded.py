"""Losses are in [0, 1] and belong to independent units."""

import numpy as np
import pytest

from pacbayes.losses.bounded import loss_of, of_units

CLASSES = np.array(["ham", "spam"])


def test_errors_are_zero_or_one():
    loss = loss_of(CLASSES)
    answers = np.array(["ham", "spam", "ham"])
    np.testing.assert_array_equal(loss(answers, np.array(["ham", "ham", "spam"])), [0, 1, 1])
    assert loss.binary
    assert (loss.scale, loss.noun) == (1, "error")


def test_costs_are_looked_up_by_truth_and_answer_and_scaled():
    loss = loss_of(CLASSES, [[0, 10], [1, 0]])
    losses = loss(np.array(["spam", "ham", "ham"]), np.array(["ham", "spam", "ham"]))
    np.testing.assert_array_equal(losses, [1, 0.1, 0])
    assert (loss.scale, loss.binary, loss.noun) == (10, False, "cost")


def test_two_levels_of_cost_can_be_counted():
    assert loss_of(CLASSES, [[0, 3], [0, 0]]).binary
    assert not loss_of(CLASSES, [[1, 3], [0, 0]]).binary


@pytest.mark.parametrize(
    "costs", [[[0, 1]], [[0, -1], [1, 0]], [[0, np.inf], [1, 0]], [[0, 0], [0, 0]]]
)
def test_wrong_costs_are_refused(costs):
    with pytest.raises(ValueError, match="costs must"):
        loss_of(CLASSES, costs)


def test_a_group_has_the_mean_loss_of_its_examples():
    losses, groups = np.array([0, 1, 1, 0.0]), np.array(["a", "a", "b", "c"])
    np.testing.assert_array_equal(of_units(losses, groups), [0.5, 1, 0])
    np.testing.assert_array_equal(of_units(losses, None), losses)


def test_only_examples_that_count_count_and_groups_without_any_are_left_out():
    losses, groups = np.array([0, 1, 1, 0.0]), np.array(["a", "a", "b", "c"])
    where = np.array([False, True, True, False])
    np.testing.assert_array_equal(of_units(losses, groups, where), [1, 1])
    np.testing.assert_array_equal(of_units(losses, None, where), [1, 1])


def test_costs_belong_to_classes_in_the_order_given():
    loss = loss_of(np.array(["low", "medium", "high"]), [[0, 1, 5], [1, 0, 1], [10, 1, 0]])
    truth = np.array(["low", "high", "medium", "high"])
    answers = np.array(["high", "low", "medium", "never"])
    np.testing.assert_array_equal(loss(answers, truth), [0.5, 1.0, 0.0, 1.0])  # the worst at last
    with pytest.raises(ValueError, match="label 'huge' has no row among the costs"):
        loss(answers[:1], np.array(["huge"]))
