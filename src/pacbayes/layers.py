"""Layers whose weights are Gaussian: moments of the pre-activation, or a draw of the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from pacbayes.gaussian import Gaussian

__all__ = ["GaussianConv2d", "GaussianLinear"]


class GaussianLinear(nn.Module):
    """z = Wa + b with independent Gaussian entries of W and b, all part of Q.

    Args:
        inputs, outputs: widths.
        scale: prior deviation of every entry.
        learned_scale: whether Q has a trainable deviation for every entry.
    """

    def __init__(
        self, inputs: int, outputs: int, *, scale: float = 1.0, learned_scale: bool = False
    ) -> None:
        super().__init__()
        self.weight = Gaussian(outputs, inputs, scale=scale, learned_scale=learned_scale)
        self.bias = Gaussian(outputs, scale=scale, learned_scale=learned_scale)

    def moments(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean μa + β and deviation √(a²σ² + σ_b²) of the pre-activation, given activations.

        Args:
            a: (..., inputs).

        Returns:
            Mean (..., outputs) and deviation, (..., 1) where all scales are equal.
        """
        mean = nn.functional.linear(a, self.weight.mean, self.bias.mean)
        if self.weight.learned_scale:
            spread = nn.functional.linear(a.square(), self.weight.variance, self.bias.variance)
            return mean, spread.sqrt()
        deviation: Tensor = _EqualDeviation.apply(a, self.weight.variance)
        return mean, deviation


class _EqualDeviation(torch.autograd.Function):
    """√(σ²(‖a‖² + 1)) where every weight has the variance σ², which is not trained.

    Written out because autograd would store the squares and go through them twice more.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, variance: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(a, dim=-1, keepdim=True)
        deviation: Tensor = (variance * (norm.square() + 1)).sqrt()
        ctx.save_for_backward(a, deviation, variance)
        return deviation

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        a, deviation, variance = ctx.saved_tensors
        return a * (grad * variance / deviation), None


class GaussianConv2d(nn.Module):
    """A convolution with Gaussian kernel and bias, for bodies of one's own.

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
        return mean + deviation * torch.randn_like(mean)
