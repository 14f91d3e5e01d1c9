"""Finer classes become groups: probabilities add up, and decisions follow the larger sum."""

import torch
from torch import nn

from pacbayes.networks.grouping import grouped

SCORES = torch.tensor([[0.1, 2.0, 1.9, 0.3], [3.0, 0.0, 2.9, -1.0]], dtype=torch.float64)


def test_two_groups_have_the_difference_of_their_probabilities():
    p = SCORES.softmax(-1)
    want = p[:, [0, 2]].sum(1) - p[:, [1, 3]].sum(1)
    module = grouped(nn.Identity(), (1, 0, 1, 0)).double()
    assert torch.allclose(module(SCORES).squeeze(-1), want, rtol=0, atol=1e-15)


def test_more_groups_have_the_sums_of_probabilities():
    p = SCORES.softmax(-1)
    want = torch.stack([p[:, 3], p[:, 0] + p[:, 1], p[:, 2]], 1)
    module = grouped(nn.Identity(), (1, 1, 2, 0)).double()
    assert torch.allclose(module(SCORES), want, rtol=0, atol=1e-15)
