"""Draws with their gradients, and activations as sampling rules.

A rule takes mean and deviation of independent Gaussian pre-activations, (B, d) at the first layer
and (T, B, d) above it, and returns T samples of the activations. Weights are never drawn: given the
activations below, the pre-activations of an example are independent Gaussians, so a local draw
amounts to fresh weights for every example and sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import log_ndtr

from pacbayes.randomness import normal, uniform

__all__ = [
    "FUNCTIONS",
    "Draw",
    "Rule",
    "estimate",
    "leave_one_out",
    "log_sign_probability",
    "no_baseline",
    "relu",
    "sample_sign",
    "sigmoid",
    "sign",
    "sign_of",
    "sign_straight",
]


@dataclass(frozen=True)
class Draw:
    """T samples for each of B examples.

    Attributes:
        value: the samples, (T, B) for an output and (T, B, d) for activations. Their autograd graph
            holds the *pathwise* part of the gradient.
        log_prob: log-probability of everything sampled *without* a path, (T, B), or a scalar zero
            if every sample has one.
    """

    value: Tensor
    log_prob: Tensor


def estimate(draw: Draw, baseline: Tensor | float = 0.0) -> Tensor:
    r"""Join value and score into one tensor with the right value and an unbiased gradient.

    Forward this is the sampled value v; backward it is ∇v + (v − b)·∇log p, whose expectation is
    ∇E[v] for every baseline b independent of the sample it is subtracted from. Pathwise,
    REINFORCE and marginalised REINFORCE (eq. local_reinforce) differ only in what a draw counts
    as log p.

    Returns:
        (T, B), to be averaged over T.
    """
    v, log_p = draw.value, draw.log_prob
    return v + (v.detach() - baseline) * (log_p - log_p.detach())


def no_baseline(value: Tensor) -> float:
    """b = 0: plain REINFORCE."""
    return 0.0


def leave_one_out(value: Tensor) -> Tensor:
    r"""Baseline b_t = Σ_{s≠t} v_s / (T − 1): the other samples of the same example.

    Independent of sample t, hence free of bias (Kool, van Hoof & Welling 2019).
    """
    T = value.shape[0]
    if T < 2:
        raise ValueError(f"leave-one-out needs at least 2 samples, got {T}")
    v = value.detach()
    return (v.sum(0) - v) / (T - 1)


Rule = Callable[[Tensor, Tensor, int], Draw]


def relu(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    """max(0, z), z ~ N(mean, deviation²), pathwise (local reparameterisation)."""
    return Draw(_normal(mean, deviation, T).relu_(), mean.new_zeros(()))


def sigmoid(mean: Tensor, deviation: Tensor, T: int) -> Draw:
    """1 / (1 + e^−z), z ~ N(mean, deviation²), pathwise (local reparameterisation)."""
    return Draw(_normal(mean, deviation, T).sigmoid_(), mean.new_zeros(()))


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


def sign_of(z: Tensor) -> Tensor:
    """Return ±1, and +1 at zero."""
    return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)


# The activation of each rule, for pre-activations with known weights.
FUNCTIONS: dict[Rule, Callable[[Tensor], Tensor]] = {
    relu: torch.relu,
    sigmoid: torch.sigmoid,
    sign: sign_of,
    sign_straight: sign_of,
}


def sample_sign(u: Tensor, T: int) -> Tensor:
    """Draw a = ±1 with P(a = 1) = Φ(u), (T, B, …), from u of shape (B, …) or (T, B, …)."""
    with torch.no_grad():
        p = torch.erfc(u * -(0.5**0.5)).mul_(0.5)
        a: Tensor = (uniform(_sampled_shape(u, T), u) < p).to(u.dtype).mul_(2).sub_(1)
    return a


def log_sign_probability(a: Tensor, u: Tensor) -> Tensor:
    """Return log Φ(a·u), finite and with the right slope even for very unlikely a."""
    log_q: Tensor = _LogSignProbability.apply(a, u)
    return log_q


class _LogSignProbability(torch.autograd.Function):
    """log Φ(z) at z = a·u with its slope a·φ(z)/Φ(z).

    Written out because `torch.special.log_ndtr` takes longer than the rest of a training step. Only
    where erfc underflows is it needed.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, u: Tensor) -> Tensor:
        z = a * u
        log_q: Tensor = torch.erfc(z * -(0.5**0.5)).mul_(0.5).log_()
        deep = z < (-36.0 if z.dtype == torch.float64 else -12.0)
        if deep.any():
            log_q[deep] = log_ndtr(z[deep])
        ctx.save_for_backward(a, z, log_q)
        ctx.shape = u.shape
        return log_q

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        a, z, log_q = ctx.saved_tensors
        score = z.square().mul_(-0.5).sub_(log_q).exp_().mul_((2 * math.pi) ** -0.5).mul_(a)
        return None, score.mul_(grad).sum_to_size(ctx.shape)


def _normal(mean: Tensor, deviation: Tensor, T: int) -> Tensor:
    return torch.addcmul(mean, deviation, normal(_sampled_shape(mean, T), mean))


def _sampled_shape(u: Tensor, T: int) -> torch.Size:
    return u.shape if u.dim() == 3 else torch.Size((T, *u.shape))
