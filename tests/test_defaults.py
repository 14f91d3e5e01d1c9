"""Defaults for tables are functions of the number of examples, and sensible for every number."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from pacbayes import defaults

SIZES = np.unique(np.geomspace(9, 10**7, 200).astype(int)).tolist()


def test_the_part_for_any_model_falls_with_n_but_the_bound_set_grows():
    fractions = [defaults.bound_fraction(n) for n in SIZES]
    assert all(a >= b for a, b in pairwise(fractions))
    counts = [f * n for f, n in zip(fractions, SIZES, strict=True)]
    assert all(a < b for a, b in pairwise(counts))
    assert defaults.bound_fraction(10_000) == pytest.approx(0.25, abs=0.01)


def test_prior_and_bound_set_both_get_examples():
    for n in SIZES:
        own = round(defaults.prior_fraction(n) * n)
        assert own >= 1
        assert n - own >= defaults.LEAST_BOUND_SET


def test_a_prior_takes_enough_steps_however_few_its_examples():
    for own in SIZES:
        batch = defaults.batch_size(own)
        steps = math.ceil(own / batch)
        epochs = defaults.prior_epochs(own, batch)
        assert epochs >= 100
        assert epochs * steps >= defaults.LEAST_STEPS
        assert epochs == 100 or (epochs - 1) * steps < defaults.LEAST_STEPS  # and no more


def test_the_linear_model_counts_less_among_many_examples():
    assert [defaults.linear_weight(n) for n in (10, 1000, 4000)] == [1, 1, 0.25]


def test_defaults_are_known_without_torch():
    code = "import sys, pacbayes.defaults; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
