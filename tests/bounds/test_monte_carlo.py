"""The Monte-Carlo term covers at least as often as it says."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from pacbayes.bounds import kl_chernoff


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("draws", [1, 10, 100])
def test_exact_violation_probability_of_bernoulli_draws(draws, delta):
    upper = [kl_chernoff(k / draws, draws, delta) for k in range(draws + 1)]
    for p in (0.001, 0.02, 0.2, 0.5, 0.9, 0.999):
        violated = sum(binom.pmf(k, draws, p) for k in range(draws + 1) if upper[k] < p)
        assert violated <= delta


def test_unequal_weights_count_as_one_over_the_largest():
    """Two weighted coins, every outcome enumerated: N = 1/max w covers, N = 2 would not always."""
    weights, delta = np.array([0.9, 0.1]), 0.25

    def violation(draws, p):
        total = 0.0
        for outcome in itertools.product((0, 1), repeat=2):
            probability = np.prod([p if o else 1 - p for o in outcome])
            total += probability * (kl_chernoff(float(weights @ outcome), draws, delta) < p)
        return total

    grid = np.linspace(0.01, 0.99, 99)
    assert max(violation(1 / weights.max(), p) for p in grid) <= delta
    assert max(violation(2, p) for p in grid) > delta


def test_shrinks_as_draws_grow_and_never_falls_below_the_mean():
    values = [kl_chernoff(0.1, draws, 0.05) for draws in (10, 100, 1000, 10**6)]
    assert values == sorted(values, reverse=True)
    assert 0.1 <= values[-1] < 0.101


@pytest.mark.parametrize("bad", [(-0.1, 10, 0.05), (0.1, 0.5, 0.05), (0.1, 10, 0.0)])
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        kl_chernoff(*bad)
