"""Layers with Gaussian weights: moments of the pre-activation, or a draw of the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from pacbayes.networks.gaussian import Gaussian
from pacbayes.randomness import normal_like

__all__ = ["GaussianConv2d", "GaussianLinear"]


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
