"""The last layer, sign(w·a + b), as a rule: aggregated over its weights, or sampled.

Every head takes the Gaussian layer and a draw of the activations, (T, B, d). It returns a draw of
the output: F ∈ [−1, 1], (T, B), for two classes, or every class's probability, (T, B, k).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pacbayes.networks.activations import Draw, log_sign_probability, sample_sign
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.quadrature import label_probability, win_probabilities

__all__ = ["HEADS", "Head", "aggregated", "differenced", "of_label", "sampled"]

Head = Callable[[GaussianLinear, Draw], Draw]


def aggregated(layer: GaussianLinear, a: Draw) -> Draw:
    r"""E sign(w·a + b) = erf(mean / (√2·deviation)): eq. erf_aggregate with bias.

    With k > 2 outputs it is P(score y is the largest | a) for every class y: given activations the
    scores are independent Gaussians (`quadrature` has the integral). Averaged over T draws this is
    the partially aggregated estimator F̂*_Q.
    """
    mean, deviation = layer.moments(a.value)  # (T, B, outputs)
    if mean.shape[-1] == 1:
        return Draw(_erf(mean / deviation).squeeze(-1), a.log_prob)
    value = win_probabilities(mean, deviation)
    return Draw(value, a.log_prob.unsqueeze(-1).to(value.device))


def of_label(layer: GaussianLinear, a: Draw, y: Tensor) -> Draw:
    """P(score y is the largest | a), (T, B): of the classes of `aggregated`, the label's alone."""
    mean, deviation = layer.moments(a.value)  # (T, B, k)
    value = label_probability(mean, deviation, y)
    return Draw(value, a.log_prob.to(value.device))


def differenced(layer: GaussianLinear, a: Draw) -> Draw:
    r"""I(a) at a ∈ {−1, +1}^d, whose derivative in a_i is ½[I(a_i = 1) − I(a_i = −1)].

    With `hidden.sign_straight` below it, the gradient sums each unit of the last hidden layer over
    both its values and samples only the others: the local-expectation estimator, unbiased (Titsias
    & Lázaro-Gredilla 2015). A flipped unit moves the mean by 2μ_i and leaves the variance alone.
    """
    s = a.value.detach()
    mean, deviation = layer.moments(s)  # (T, B, 1)
    value = _erf(mean / deviation)
    with torch.no_grad():
        flipped = _erf((mean - 2 * s * layer.weight.mean) / deviation)  # (T, B, d)
        difference = 0.5 * s * (value - flipped)
    path = ((a.value - s) * difference).sum(-1)
    return Draw(value.squeeze(-1) + path, a.log_prob)


def sampled(layer: GaussianLinear, a: Draw) -> Draw:
    """A sampled sign, its log-probability counted: averaged over T, the naive estimator F̂_Q."""
    mean, deviation = layer.moments(a.value)  # (T, B, 1)
    u = mean / deviation
    output = sample_sign(u, u.shape[0])
    return Draw(output.squeeze(-1), a.log_prob + log_sign_probability(output, u).squeeze(-1))


def _erf(u: Tensor) -> Tensor:
    return torch.erf(u * 0.5**0.5)


HEADS: tuple[Head, ...] = (aggregated, differenced, sampled)
