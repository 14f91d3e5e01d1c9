import itertools
from typing import get_args

import torch

from pacbayes.randomness import Purpose, seeded, stream


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
    with seeded(7, "certificate"):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), outside)
    with seeded(7, "certificate"):
        assert torch.equal(torch.rand(3), first)
