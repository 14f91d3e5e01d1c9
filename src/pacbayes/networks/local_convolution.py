"""A convolution whose outputs are drawn from their marginals, with its gradient written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pacbayes.randomness import generator_on

__all__ = ["LEAST", "draw_convolution"]

LEAST = 1e-30  # variance, where zeros meet a layer without bias: the slope of √v stays finite
_Geometry = tuple[list[int], list[int], list[int], int]  # stride, padding, dilation, groups


def draw_convolution(
    a: Tensor,
    weights: tuple[Tensor, Tensor],
    biases: tuple[Tensor | None, Tensor | None],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    r"""Draw z ~ N(μ∗a + β, σ²∗a² + σ_β²) for every output of a batch, (B, channels, …).

    The second half of the batch has the noise of the first with the other sign: every output keeps
    its marginal, every example its independent noise, and half of the normal numbers are saved.

    Args:
        weights, biases: their means and variances.
    """
    sides = a.dim() - 2
    s, p, d = ([v] * sides if isinstance(v, int) else list(v) for v in (stride, padding, dilation))
    z: Tensor = _Drawn.apply(_channels_last(a), *weights, *biases, (s, p, d, groups))
    return z


class _Drawn(torch.autograd.Function):
    """z = m + ε√v with m = μ∗a + β and v = σ²∗a² + σ_β², so dm = dz and dv = ε/(2√v)·dz.

    Written out because autograd would pass five times as often over tensors of the outputs' size.
    """

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        mean: Tensor,
        variance: Tensor,
        shift: Tensor | None,
        spread: Tensor | None,
        geometry: _Geometry,
    ) -> Tensor:
        squares = a.square()
        z = _convolve(a, mean, shift, geometry)
        deviation = _convolve(squares, variance, spread, geometry).clamp_(min=LEAST).sqrt_()
        noise = _mirrored_noise(z)
        z.addcmul_(deviation, noise)
        ctx.save_for_backward(a, squares, mean, variance, noise.div_(deviation))
        ctx.geometry = geometry
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, squares, mean, variance, slope = ctx.saved_tensors
        image, *wanted = ctx.needs_input_grad[:5]
        first = _gradients(grad, a, mean, ctx.geometry, [image, wanted[0], wanted[2]])
        mask = [image, wanted[1], wanted[3]]
        second: tuple[Tensor | None, ...] = (None, None, None)
        if any(mask):
            half = (grad * slope).mul_(0.5)
            second = _gradients(half, squares, variance, ctx.geometry, mask)
        inner = None
        if first[0] is not None and second[0] is not None:
            inner = first[0].addcmul_(second[0], a, value=2)  # d(a²) = 2a da
        return inner, first[1], second[1], first[2], second[2], None


def _convolve(a: Tensor, weight: Tensor, bias: Tensor | None, geometry: _Geometry) -> Tensor:
    s, p, d, groups = geometry
    return torch.convolution(a, weight, bias, s, p, d, False, [0] * len(s), groups)


def _gradients(
    grad: Tensor, a: Tensor, weight: Tensor, geometry: _Geometry, mask: list[bool]
) -> tuple[Tensor | None, ...]:
    """Return those of input, weight and bias, where the mask wants them."""
    s, p, d, groups = geometry
    sizes, zero = [len(weight)], [0] * len(s)
    found: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
        grad, a, weight, sizes, s, p, d, False, zero, groups, mask
    )
    return found


def _channels_last(a: Tensor) -> Tensor:
    """Lay images out with channels last, in which strided convolutions have faster gradients."""
    if a.dim() != 4:
        return a
    a = a.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = a.shape
    if channels == 1:  # either layout: say which, since the output follows
        a = a.as_strided(a.shape, (height * width, 1, width, 1))
    return a


def _mirrored_noise(like: Tensor) -> Tensor:
    """Return normal numbers in the layout of a batch, those of its second half mirrored."""
    noise = torch.empty_like(like)
    rows = noise if noise.is_contiguous() else noise.movedim(1, -1)  # fast only if contiguous
    half = (len(rows) + 1) // 2
    rows[:half].normal_(generator=generator_on(like.device))
    torch.neg(rows[: len(rows) - half], out=rows[half:])
    return noise
