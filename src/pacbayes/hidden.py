"""Hidden units as sampling rules: T activations from the moments of their pre-activations.

A rule takes the mean and deviation of independent Gaussian pre-activations, (B, d) at the first
layer and (T, B, d) above it, and returns T samples of the activations. No weight is ever drawn:
given the activations below, the pre-activations of one example are independent Gaussians, so a
local draw is a draw of fresh weights for every example and sample.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr

from pacbayes.draws import Draw

__all__ = [
    "Rule",
    "log_sign_probability",
    "relu",
    "sample_sign",
    "sigmoid",
    "sign",
    "sign_straight",
]

Rule = Callable[[Tensor, Tensor, int], Draw]


def relu(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    """max(0, z), z ~ N(mean, deviation²), pathwise (local reparameterisation)."""
    return Draw(_normal(mean, deviation, T).relu(), mean.new_zeros(()))


def sigmoid(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    """1 / (1 + e^−z), z ~ N(mean, deviation²), pathwise (local reparameterisation)."""
    return Draw(_normal(mean, deviation, T).sigmoid(), mean.new_zeros(()))


def sign(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    r"""a ∈ {−1, +1}^d with q̃(a_i) = Φ(a_i·mean_i/deviation_i); no path, log q̃ counted.

    The conditional of "All Sign Activations"; with `estimate` it is marginalised REINFORCE.
    """
    u = mean / deviation
    a = sample_sign(u, T)
    return Draw(a, log_sign_probability(a, u).sum(-1))


def sign_straight(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    """The same sample with the path of its expectation: forward a, backward erf(u/√2).

    Exact where what follows is linear in each a_i (`heads.differenced` makes it so); anywhere
    else this is the biased straight-through estimator.
    """
    u = mean / deviation
    expectation = torch.erf(u * 0.5**0.5)
    return Draw(sample_sign(u, T) + (expectation - expectation.detach()), mean.new_zeros(()))


def sample_sign(u: Tensor, T: int) -> Tensor:
    """a = ±1 with P(a = 1) = Φ(u), (T, B, …) from u of shape (B, …) or (T, B, …)."""
    with torch.no_grad():
        p = ndtr(u)
        uniform = torch.rand(_sampled_shape(u, T), dtype=u.dtype, device=u.device)
        a: Tensor = (uniform < p).to(u.dtype).mul_(2).sub_(1)
    return a


def log_sign_probability(a: Tensor, u: Tensor) -> Tensor:
    """log Φ(a·u) through log_ndtr: finite and with the right slope however unlikely a is."""
    if a.dim() > u.dim():
        return torch.where(a > 0, log_ndtr(u), log_ndtr(-u))  # once per input, not T times
    log_q: Tensor = log_ndtr(a * u)
    return log_q


def _normal(mean: Tensor, deviation: Tensor, T: int) -> Tensor:
    noise = torch.randn(_sampled_shape(mean, T), dtype=mean.dtype, device=mean.device)
    return torch.addcmul(mean, deviation, noise)


def _sampled_shape(u: Tensor, T: int) -> torch.Size:
    return u.shape if u.dim() == 3 else torch.Size((T, *u.shape))
