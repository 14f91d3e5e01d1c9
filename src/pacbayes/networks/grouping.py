"""A network that learned finer classes, such as ten digits, as one for groups of them."""

from __future__ import annotations

import torch
from torch import nn

from pacbayes.devices import CPU

__all__ = ["grouped"]


def grouped(module: nn.Module, groups: tuple[int, ...]) -> nn.Sequential:
    """Put the probability of every group on top of a module with scores of finer classes.

    P(group | x) = Σ softmax(scores)_c over the classes c of the group. Two groups have one score,
    P(1 | x) − P(0 | x).

    Args:
        groups: the group of every finer class, from 0.
    """
    count = max(groups) + 1
    members = torch.zeros(count, len(groups), device=CPU)
    members[list(groups), list(range(len(groups)))] = 1.0
    weight = members[1:] - members[:1] if count == 2 else members
    last = nn.Linear(len(groups), len(weight), device=CPU)
    with torch.no_grad():
        last.weight.copy_(weight)
        last.bias.zero_()
    return nn.Sequential(module, nn.Softmax(-1), last)
