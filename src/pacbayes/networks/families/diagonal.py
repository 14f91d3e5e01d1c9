"""A Gaussian family: Q = N(μ, diag σ²) over a tensor of weights, beside P = N(μ₀, σ₀² I).

All that other files need to know of the family is here: what is trained, saved and rebuilt, draws
at given noise, moments of a layer's pre-activations, KL and log-ratio. They ask for a `Law`, its
plain tensors, and never for a number that an object says of itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from pacbayes.devices import wide
from pacbayes.randomness import generator_on, normal, normal_like

__all__ = [
    "INITIAL_VARIANCE",
    "OF_POSTERIOR",
    "OF_PRIOR",
    "Gaussian",
    "GaussianConv2d",
    "GaussianLinear",
    "Law",
    "add_slope",
    "divergence",
    "drawn",
    "has_prior_scale",
    "law_of",
    "log_ratio",
    "point_mass",
    "prior_scale",
    "ratio",
    "rebuilt",
    "shift",
    "trained",
    "truncated_normal",
    "variance",
]

INITIAL_VARIANCE = 0.05  # of the truncated normal that means start from (Experiments; a variance)


class Gaussian(nn.Module):
    r"""Q = N(μ, diag σ²) beside its prior P = N(μ₀, σ₀² I), frozen at construction.

    The means start at a truncated normal of variance 0.05, cut at two standard deviations, and the
    scales at σ₀; P is Q at that time. μ₀ and σ₀ are buffers: saved and hashed, never trained.

    Args:
        shape: shape of the weight tensor.
        scale: σ₀, and also σ unless the scales are learned.
        learned_scale: whether every weight has its own trainable σ.
        mean: where the means start instead; it must not have seen the bound set.
    """

    prior_mean: Tensor
    prior_log_scale: Tensor
    log_scale: Tensor

    def __init__(
        self,
        *shape: int,
        scale: float = 1.0,
        learned_scale: bool = False,
        mean: Tensor | None = None,
    ) -> None:
        super().__init__()
        if not (scale > 0 and math.isfinite(scale)):
            raise ValueError(f"scale must be positive and finite, got {scale}")
        if mean is None:
            mean = truncated_normal(shape, math.sqrt(INITIAL_VARIANCE))
        mean = mean.detach().clone(memory_format=torch.contiguous_format)
        self.mean = nn.Parameter(mean)
        self.register_buffer("prior_mean", mean.clone())
        start = torch.tensor(math.log(scale), device=mean.device)
        self.register_buffer("prior_log_scale", start)
        if learned_scale:
            self.log_scale = nn.Parameter(torch.full(shape, math.log(scale), device=mean.device))
        else:
            self.register_buffer("log_scale", start.clone())

    @property
    def learned_scale(self) -> bool:
        """Whether the standard deviations are trained."""
        return isinstance(self.log_scale, nn.Parameter)

    @property
    def variance(self) -> Tensor:
        """σ², in the shape of the weights if learned, otherwise a scalar."""
        return (2 * self.log_scale).exp()

    def seen(self, a: Tensor) -> Tensor:
        """Return inputs of a layer as its weights see them; other families have a basis."""
        return a

    def sample(self, *sizes: int) -> Tensor:
        """Draw weights from Q, `(*sizes, *shape)`, with a path to μ and σ."""
        shape = (*sizes, *self.mean.shape)
        return self.mean + self.log_scale.exp() * normal(shape, self.mean)

    def log_density(self, weights: Tensor) -> Tensor:
        """Return log q(w), summed over the weights' own dimensions, without a path through w."""
        log_q: Tensor = _LogDensity.apply(self.mean, self.log_scale, weights.detach())
        return log_q

    def kl(self) -> Tensor:
        """Return KL(Q|P) in float64, with a gradient (`divergence`)."""
        return divergence(law_of(self))


class Law(NamedTuple):
    """The tensors of Q = N(μ, diag σ²) and P = N(μ₀, σ₀² I), from which certificates compute."""

    mean: Tensor
    log_scale: Tensor
    prior_mean: Tensor
    prior_log_scale: Tensor

    @property
    def posterior(self) -> tuple[Tensor, Tensor]:
        """The tensors of Q, which its draws are keyed by."""
        return self.mean, self.log_scale

    @property
    def prior(self) -> tuple[Tensor, Tensor]:
        """The tensors of P."""
        return self.prior_mean, self.prior_log_scale


OF_POSTERIOR, OF_PRIOR = Law._fields[:2], Law._fields[2:]  # names of saved tensors


def law_of(g: Gaussian) -> Law:
    """Return the tensors that a Gaussian has registered, whatever its attributes say."""
    tensors = {**vars(g)["_buffers"], **vars(g)["_parameters"]}
    return Law(*(tensors[field] for field in Law._fields))


def rebuilt(tensors: Mapping[str, Tensor], *, learned_scale: bool) -> Gaussian:
    """Build a Gaussian anew from four tensors, which it then holds as they are.

    Raises:
        ValueError: a tensor has another shape than its place.
    """
    mean = tensors.get("mean", torch.zeros(()))
    made = Gaussian(*mean.shape, learned_scale=learned_scale, mean=mean)
    for key, own in law_of(made)._asdict().items():
        if key in tensors and tensors[key].shape != own.shape:
            shapes = f"{tuple(tensors[key].shape)} instead of {tuple(own.shape)}"
            raise ValueError(f"{key} has the shape {shapes}")
        if key in tensors:
            own.data = tensors[key].clone(memory_format=torch.contiguous_format)
    return made


def drawn(law: Law, noise: Tensor) -> Tensor:
    """Return the weights that standard normal noise draws from Q, without a gradient."""
    return (law.mean + law.log_scale.exp() * noise).detach()


def point_mass(law: Law, weights: Tensor) -> dict[str, Tensor]:
    """Return the tensors of a Q that has all its mass at weights, by their names."""
    nothing = torch.full_like(law.log_scale, -math.inf)
    return dict(zip(OF_POSTERIOR, (weights, nothing), strict=True))


def variance(law: Law) -> Tensor:
    """Return σ² in float64, in the shape of the weights if learned, otherwise a scalar."""
    return (2 * wide(law.log_scale.detach())).exp()


def shift(law: Law) -> Tensor:
    """Return (μ − μ₀)/σ₀ of every weight, in float64."""
    moved = wide(law.mean) - wide(law.prior_mean)
    return (moved * (-wide(law.prior_log_scale)).exp()).flatten()


def ratio(law: Law) -> Tensor:
    """Return σ/σ₀ of every weight, in float64."""
    both = (wide(law.log_scale) - wide(law.prior_log_scale)).exp()
    return both.expand(law.mean.shape).flatten()


def prior_scale(g: Gaussian) -> float:
    """Return σ₀."""
    return g.prior_log_scale.exp().item()


def has_prior_scale(g: Gaussian, scale: float) -> bool:
    """Return whether σ₀ is a scale, rounding aside."""
    have = g.prior_log_scale.float()
    return bool(torch.isclose(have, have.new_tensor(math.log(scale)), rtol=1e-5, atol=1e-6))


def trained(g: Gaussian) -> list[tuple[Tensor, Tensor | None, Tensor]]:
    """Return what training moves, each with its place in P: μ beside μ₀ and ln σ₀, then ln σ."""
    means = (g.mean, g.prior_mean, g.prior_log_scale)
    return [means, (g.log_scale, None, g.prior_log_scale)] if g.learned_scale else [means]


@torch.no_grad()
def add_slope(g: Gaussian, coefficient: float) -> None:
    """Add the gradient of coefficient·KL to the parameters' own.

    It is written out, (μ − μ₀)/σ₀² and σ²/σ₀² − 1 in ln σ: through autograd it would cost as much
    as the rest of a small step.
    """
    s0 = g.prior_log_scale
    _add(g.mean, g.mean - g.prior_mean, coefficient * math.exp(-2 * s0.item()))
    if isinstance(g.log_scale, nn.Parameter):
        _add(g.log_scale, (2 * (g.log_scale - s0)).expm1_(), coefficient)


def _add(p: nn.Parameter, slope: Tensor, factor: float) -> None:
    if not p.requires_grad:
        return
    p.grad = slope * factor if p.grad is None else p.grad.add_(slope, alpha=factor)


def divergence(law: Law) -> Tensor:
    r"""KL(Q|P) = ½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²], in float64."""
    s0 = wide(law.prior_log_scale)
    shift = (wide(law.mean) - wide(law.prior_mean)).flatten()
    r = 2 * (wide(law.log_scale) - s0)
    squares = torch.dot(shift, shift) * (-2 * s0).exp()
    return 0.5 * (squares + (r.expm1() - r).sum() * (shift.numel() / r.numel()))


def log_ratio(law: Law, weights: Tensor) -> Tensor:
    r"""ln(dQ/dP) = Σ [½(w − μ₀)²/σ₀² − ½(w − μ)²/σ² + ln(σ₀/σ)] at weights, in float64."""
    s, s0 = wide(law.log_scale), wide(law.prior_log_scale)
    far = (weights - wide(law.prior_mean)) * (-s0).exp()
    near = (weights - wide(law.mean)) * (-s).exp()
    return (0.5 * (far.square() - near.square()) + s0 - s).sum()


def truncated_normal(shape: tuple[int, ...], deviation: float) -> Tensor:
    """Draw normal numbers within two standard deviations, drawing again those that are not.

    Written out so that a data-free prior is a function of its seed and shapes that no release of
    torch can change; on the CPU, so that neither can a device.
    """
    cut = float(np.float32(2 * deviation))  # as the numbers are

    def draw() -> Tensor:
        numbers = torch.empty(shape, device="cpu", dtype=torch.float32)
        return numbers.normal_(0.0, deviation, generator=generator_on(numbers.device))

    result = draw()
    while (outside := result.abs() > cut).any():
        result = torch.where(outside, draw(), result)
    return result


class _LogDensity(torch.autograd.Function):
    """−Σ[½z² + ln σ + ½ln 2π] at z = (w − μ)/σ, with its score: z/σ in μ and z² − 1 in ln σ.

    Written out because a hundred draws of all weights are large and autograd would pass over them
    ten times.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_scale: Tensor, w: Tensor) -> Tensor:
        z = (w - mean).mul_((-log_scale).exp()).flatten(w.dim() - mean.dim())  # (…, weights)
        ctx.save_for_backward(z, log_scale)
        ctx.shape = mean.shape
        squares = torch.linalg.vector_norm(z, dim=-1).square()
        count = z.shape[-1] / log_scale.numel()
        logs = log_scale.sum() * count + 0.5 * math.log(math.tau) * z.shape[-1]
        log_q: Tensor = -0.5 * squares - logs
        return log_q

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        z, log_scale = ctx.saved_tensors
        rows, g = z.flatten(0, -2), grad.flatten()
        mean = (g @ rows).view(ctx.shape) * (-log_scale).exp()
        if not ctx.needs_input_grad[1]:
            return mean, None, None
        spread = (g @ rows.square() - g.sum()).view(ctx.shape)
        return mean, spread.sum_to_size(log_scale.shape), None


class GaussianLinear(nn.Module):
    """z = Wa + b with independent Gaussian entries of W and b, all part of Q.

    Args:
        inputs, outputs: widths.
        scale: prior standard deviation of every entry.
        learned_scale: whether Q has a trainable standard deviation for every entry.
    """

    def __init__(
        self, inputs: int, outputs: int, *, scale: float = 1.0, learned_scale: bool = False
    ) -> None:
        super().__init__()
        self.weight = Gaussian(outputs, inputs, scale=scale, learned_scale=learned_scale)
        self.bias = Gaussian(outputs, scale=scale, learned_scale=learned_scale)

    def moments(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean μa + β and deviation √(a²σ² + σ_b²) of the pre-activations.

        Args:
            a: (..., inputs).

        Returns:
            Mean (..., outputs) and deviation, (..., 1) if all scales are equal.
        """
        a = self.weight.seen(a)
        if self.weight.learned_scale or self.bias.learned_scale:
            mean = nn.functional.linear(a, self.weight.mean, self.bias.mean)
            variance = self.weight.variance.expand_as(self.weight.mean)
            own = self.bias.variance.expand_as(self.bias.mean)
            return mean, nn.functional.linear(a.square(), variance, own).sqrt()
        if not torch.equal(self.weight.log_scale, self.bias.log_scale):
            return self._unequal_moments(a)
        moments: tuple[Tensor, Tensor] = _EqualMoments.apply(
            a, self.weight.mean, self.bias.mean, self.weight.variance
        )
        return moments

    def _unequal_moments(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Return the moments where the bias has a fixed scale of its own."""
        mean = nn.functional.linear(a, self.weight.mean, self.bias.mean)
        squares = torch.linalg.vector_norm(a, dim=-1, keepdim=True).square()
        return mean, (self.weight.variance * squares + self.bias.variance).sqrt()


class _EqualMoments(torch.autograd.Function):
    """μa + β and √(σ²(‖a‖² + 1)) where every weight has the variance σ², which is not trained.

    Written out because autograd would store the squares, pass over them twice more, and add the two
    slopes in a in a pass of its own.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, weight: Tensor, bias: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        norm = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
        deviation = (variance * (norm.square() + 1)).sqrt()
        ctx.save_for_backward(a, weight, deviation, variance)
        return nn.functional.linear(a, weight, bias), deviation

    @staticmethod
    def backward(
        ctx: Any, g_mean: Tensor, g_deviation: Tensor
    ) -> tuple[Tensor | None, Tensor, Tensor, None]:
        a, weight, deviation, variance = ctx.saved_tensors
        g, rows = g_mean.reshape(-1, g_mean.shape[-1]), a.reshape(-1, a.shape[-1])
        slope = None
        if ctx.needs_input_grad[0]:
            each = (a * (g_deviation * variance / deviation)).reshape(rows.shape)
            slope = each.addmm_(g, weight).reshape(a.shape)
        return slope, g.T @ rows, g.sum(0), None


class GaussianConv2d(nn.Module):
    """A convolution with Gaussian kernel and bias, for your own bodies.

    In training mode every output pixel is drawn from its own marginal (local
    reparameterisation): a low-variance training estimator, but not a draw from Q, since pixels
    share weights. In evaluation mode one kernel is drawn and shared by the batch: a draw from Q.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel_size: int,
        *,
        stride: int = 1,
        padding: int = 0,
        scale: float = 1.0,
        learned_scale: bool = False,
    ) -> None:
        super().__init__()
        shape = (outputs, inputs, kernel_size, kernel_size)
        self.weight = Gaussian(*shape, scale=scale, learned_scale=learned_scale)
        self.bias = Gaussian(outputs, scale=scale, learned_scale=learned_scale)
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:  # (B, inputs, H, W)
        geometry = {"stride": self.stride, "padding": self.padding}
        if not self.training:
            return conv2d(x, self.weight.sample(), self.bias.sample(), **geometry)
        mean = conv2d(x, self.weight.mean, self.bias.mean, **geometry)
        kernel = self.weight.variance.expand_as(self.weight.mean)
        bias = self.bias.variance.expand_as(self.bias.mean)
        deviation = conv2d(x.square(), kernel, bias, **geometry).sqrt()
        return mean + deviation * normal_like(mean)
