"""The bound set is a random sample that depends on the seed and on nothing else."""

import hashlib

import numpy as np
import pytest
from scipy.stats import binomtest

from pacbayes.data.splitting import split_off


def test_both_parts_together_are_all_examples_once():
    split = split_off(101, 0.4, 3)
    np.testing.assert_array_equal(np.sort([*split.own, *split.bound]), np.arange(101))
    assert len(split.bound) == 40


def test_the_hash_is_that_of_the_indices():
    split = split_off(50, 0.5, 0)
    text = b"".join(int(i).to_bytes(8, "little") for i in split.bound)
    assert split.sha256 == hashlib.sha256(text).hexdigest()
    assert split.sha256 == split_off(50, 0.5, 0).sha256 != split_off(50, 0.5, 1).sha256


def test_every_example_is_as_likely_as_any_other():
    """False-alarm rate 10 × 1e-4."""
    counts = np.zeros(10, int)
    for seed in range(1000):
        counts[split_off(10, 0.3, seed).bound] += 1
    assert min(binomtest(int(c), 1000, 0.3).pvalue for c in counts) > 1e-4


def test_groups_go_to_one_side_whole():
    groups = np.repeat([f"patient {i}" for i in range(20)], np.arange(1, 21))
    split = split_off(len(groups), 0.5, 1, groups)
    inside, outside = set(groups[split.bound]), set(groups[split.own])
    assert not inside & outside
    assert (len(inside), len(outside)) == (10, 10)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, float("nan")])
def test_no_fraction_no_split(fraction):
    with pytest.raises(ValueError, match="bound_fraction must be 'auto' or in"):
        split_off(10, fraction, 0)


def test_a_single_group_cannot_be_split():
    with pytest.raises(ValueError, match="need at least two"):
        split_off(10, "auto", 0, np.zeros(10))
