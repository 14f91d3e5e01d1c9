"""The threshold of confidence is chosen from examples outside the bound set."""

import numpy as np
import pytest

from pacbayes.models.choosing import threshold_for


@pytest.mark.parametrize(
    ("target", "threshold"), [(0.0, 0.9), (0.26, 0.6), (0.35, 0.5), (1.0, 0.4), (0.24, 0.9)]
)
def test_as_many_as_possible_are_answered(target, threshold):
    confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4])
    wrong = np.array([0, 1, 0, 0, 1, 0, 1], bool)
    assert threshold_for(confidence, wrong, target) == threshold


def test_equal_confidence_is_answered_together():
    assert threshold_for(np.array([0.8, 0.8]), np.array([False, True]), 0.1) == np.inf
    assert threshold_for(np.array([0.8, 0.8]), np.array([False, True]), 0.5) == 0.8


def test_an_impossible_target_answers_nothing():
    assert threshold_for(np.array([0.9, 0.8]), np.array([True, False]), 0.1) == np.inf
