"""The paper's halving and the fast recipe's rise and fall."""

import pytest

from pacbayes.training.loop import halvings, warm_cosine


def test_rate_is_halved_when_a_bound_is_not_below_the_smaller_of_the_two_before():
    assert halvings([]) == halvings([0.5]) == halvings([0.5, 0.6]) == 0
    assert halvings([0.5, 0.6, 0.49]) == 0
    assert halvings([0.5, 0.6, 0.5]) == 1
    assert halvings([0.5, 0.4, 0.45]) == 1
    assert halvings([0.5, 0.4, 0.45, 0.44, 0.43]) == 2


def test_warm_cosine_rises_then_falls_to_nothing():
    values = [warm_cosine(i / 100) for i in range(101)]
    assert 0 < values[0] < 0.05
    assert max(values) > 0.99
    assert values[100] == pytest.approx(0, abs=1e-12)
    top = values.index(max(values))
    assert values[:top] == sorted(values[:top])
    assert values[top:] == sorted(values[top:], reverse=True)
