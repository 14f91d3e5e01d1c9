import itertools
from typing import get_args

import torch
from scipy import stats

from pacbayes.randomness import Purpose, one_by_one, seeded, stream


def test_purposes_and_seeds_have_streams_of_their_own():
    streams = [stream(s, p) for s, p in itertools.product(range(50), get_args(Purpose))]
    assert len(set(streams)) == len(streams)


def test_no_large_seed_runs_into_another_purpose():
    words = [[stream(s + k * 2**32, p) for p in get_args(Purpose)] for s in (7,) for k in range(4)]
    flat = [w for row in words for w in row]
    assert len(set(flat)) == len(flat)


def test_a_seeded_block_repeats_and_leaves_the_outside_alone():
    torch.manual_seed(1)
    outside = torch.rand(3)
    torch.manual_seed(1)
    with seeded(7, "prediction"):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), outside)
    with seeded(7, "prediction"):
        assert torch.equal(torch.rand(3), first)


def test_examples_draw_by_themselves_whatever_their_company():
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    drawn = one_by_one(lambda row: torch.rand(len(row)), x, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(drawn.unique()) == 6
    assert torch.equal(one_by_one(lambda row: torch.rand(len(row)), x[[4, 1]], 1), drawn[[4, 1]])
    assert not torch.equal(one_by_one(lambda row: torch.rand(len(row)), x, 2), drawn)


def test_draws_keyed_by_examples_are_uniform():
    x = torch.arange(4000, dtype=torch.float64).unsqueeze(1)
    drawn = one_by_one(lambda row: torch.rand(len(row), dtype=torch.float64), x, seed=3)
    assert stats.kstest(drawn.numpy(), "uniform").pvalue > 1e-4  # false alarm 1e-4
