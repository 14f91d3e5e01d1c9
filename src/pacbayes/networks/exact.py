"""The exact aggregate of a small all-sign network, by the paper's iterated sum."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.special import ndtr

from pacbayes.networks import activations, heads
from pacbayes.networks.bodies import Dense
from pacbayes.networks.draws import Draw
from pacbayes.networks.network import Network

__all__ = ["LARGEST_SUM", "exact_aggregate"]

LARGEST_SUM = 2**24  # conditional probabilities in one layer's table, about 128 MB in float64


def exact_aggregate(network: Network, x: Tensor) -> Tensor:
    r"""Return F_Q(x), (B,), or every class's probability, (B, k), summed over all activations.

        F_Q(x) = Σ_{a₁} … Σ_{a_{L−1}} erf(…a_{L−1}…) Q̃_{L−1}(a_{L−1}|a_{L−2}) … Q̃₁(a₁|x)

    (eq. iterated_integral).

    It is differentiable, so it is the ground truth for gradients too. The cost grows as
    2^(d_l + d_{l+1}). Without hidden layers nothing is summed.

    Raises:
        ValueError: an activation is not sign, or the sum is too large.
    """
    a, weight = x, None  # activations (states, d) and their probabilities (B, states)
    if isinstance(network.body, Dense):
        _refuse(network.body, len(x))
        for layer in network.body.layers:
            states = sign_vectors(layer.bias.mean.shape[0], x)  # (2^d, d)
            mean, deviation = layer.moments(a)
            up = ndtr(mean / deviation).unsqueeze(-2)  # (B or states below, 1, d)
            conditional = torch.where(states > 0, up, 1 - up).prod(-1)  # (…, 2^d)
            weight = conditional if weight is None else weight @ conditional
            a = states
    elif network.freshness != "exact":
        raise ValueError(
            "an exact sum needs a dense sign network or a deterministic body; sample instead"
        )
    else:
        a = network.body.draw(x, 1).value.squeeze(0)
    output = heads.aggregated(network.layer, Draw(a.unsqueeze(0), a.new_zeros(()))).value[0]
    return output if weight is None else weight @ output


def sign_vectors(d: int, like: Tensor) -> Tensor:
    """All of {−1, +1}^d, (2^d, d)."""
    return like.new_tensor(list(itertools.product((-1.0, 1.0), repeat=d)))


def _refuse(body: Dense, batch: int) -> None:
    if not set(body.rules) <= {activations.sign, activations.sign_straight}:
        raise ValueError("only sign activations can be summed exactly; sample instead")
    widths = [layer.bias.mean.shape[0] for layer in body.layers]
    rows = [batch, *(2**d for d in widths[:-1])]
    largest = max(r * 2**d * d for r, d in zip(rows, widths, strict=True))
    if largest > LARGEST_SUM:
        raise ValueError(
            f"the exact sum over widths {widths} for {batch} examples needs {largest} numbers, "
            f"more than the limit of {LARGEST_SUM}; sample instead"
        )
