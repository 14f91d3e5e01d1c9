"""Local draws in any module: linear maps and convolutions draw their outputs, not their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d, conv2d, linear
from torch.overrides import TorchFunctionMode

from pacbayes.networks.families.diagonal import Gaussian
from pacbayes.randomness import generator_on, normal_like

__all__ = ["LEAST", "LocalDraws", "draw_convolution", "in_same_layout"]

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

    The second half of the batch has the noise of the first with the other sign, and the second
    quarter that of the first at other outputs: every output keeps its marginal, the outputs of an
    example stay independent, and three quarters of the normal numbers are saved.

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
        half = (len(z) + 1) // 2
        noise = _noise(z[:half])
        slope = deviation  # becomes ε/√v
        for part in (slice(half), slice(half, None)):
            own = noise[: len(z[part])]
            if part.start:  # the second half mirrors the first
                own.neg_()
            z[part].addcmul_(deviation[part], own)
            torch.div(own, deviation[part], out=slope[part])
        ctx.save_for_backward(a, squares, mean, variance, slope)
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
            second = _gradients(grad * slope, squares, variance, ctx.geometry, mask)
        inner = None
        if first[0] is not None and second[0] is not None:
            inner = first[0].addcmul_(second[0], a)  # d(a²) = 2a da, and the 2 meets the 1/2
        halved = (None if g is None else g.mul_(0.5) for g in second[1:])
        return inner, first[1], next(halved), first[2], next(halved), None


def in_same_layout(a: Tensor) -> Tensor:
    """Return images whose gradient will have their layout in memory, if channels are last.

    What follows a `flatten` gives it a gradient with channels first, and everything below would
    pass over two layouts at once, several times slower.
    """
    if a.dim() != 4 or a.is_contiguous() or not a.is_contiguous(memory_format=torch.channels_last):
        return a
    same: Tensor = _SameLayout.apply(a)
    return same


class _SameLayout(torch.autograd.Function):
    """The identity, whose gradient has its channels last."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a.view_as(a)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.contiguous(memory_format=torch.channels_last)


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


def _noise(like: Tensor) -> Tensor:
    """Return normal numbers in a layout; the second half has those of the first, elsewhere."""
    noise = torch.empty_like(like)
    rows = noise if noise.is_contiguous() else noise.movedim(1, -1)  # fast only if contiguous
    half = (len(rows) + 1) // 2
    rows[:half].normal_(generator=generator_on(like.device))
    moved = rows[: len(rows) - half].flatten(1)
    rows[half:].flatten(1).copy_(moved.roll(moved.shape[1] // 2, 1))
    return noise


_BILINEAR = (linear, conv1d, conv2d)  # in input and weight, and their bias is added to each output
_GEOMETRY = ("stride", "padding", "dilation", "groups")
_ANY_STRIDES: dict[Any, Callable[..., Tensor]] = {
    Tensor.view: Tensor.reshape,
    Tensor.view_as: Tensor.reshape_as,
    Tensor.reshape: Tensor.reshape,
    Tensor.flatten: Tensor.flatten,
    torch.flatten: Tensor.flatten,
}


class LocalDraws(TorchFunctionMode):
    r"""Draw z ~ N(μ∗a + β, σ²∗a² + σ_β²) wherever a Gaussian weight meets a linear map.

    Every output of `linear`, `conv1d` and `conv2d` is drawn from its own marginal (Kingma,
    Salimans & Welling 2015), whatever stride, padding, dilation and groups are. This is a
    low-variance estimator for training, but not a draw from Q, since outputs share weights. Any
    other use of a weight sees the value that was drawn for it.

    Drawn images have their channels last in memory, where a module may expect them first; so
    `view` means `reshape` here.

    Args:
        drawn: weights that a module is called with, and the Gaussians they were drawn from.
    """

    def __init__(self, drawn: list[tuple[Tensor, Gaussian]]) -> None:
        super().__init__()
        self._kept = [tensor for tensor, _ in drawn]  # so that no other tensor gets their ids
        self._gaussians = {id(tensor): g for tensor, g in drawn}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if args and func in _ANY_STRIDES and not any(isinstance(a, torch.dtype) for a in args):
            return _ANY_STRIDES[func](in_same_layout(args[0]), *args[1:], **named)
        if func not in _BILINEAR:
            return func(*args, **named)
        given = dict(zip(("input", "weight", "bias"), args, strict=False)) | named
        weight = self._gaussians.get(id(given["weight"]))
        if weight is None:
            return func(*args, **named)
        others = {k: v for k, v in named.items() if k not in ("input", "weight", "bias")}
        bias = given.get("bias")
        return self._draw(func, given["input"], weight, bias, args[3:], others)

    def _draw(
        self,
        func: Callable[..., Tensor],
        a: Tensor,
        weight: Gaussian,
        bias: Tensor | None,
        geometry: tuple[Any, ...],
        others: Mapping[str, Any],
    ) -> Tensor:
        own = self._gaussians.get(id(bias))
        shift = bias if own is None else own.mean
        spread = None if own is None else own.variance.expand_as(own.mean)
        kernel = weight.variance.expand_as(weight.mean)
        if func is not linear and a.dim() == weight.mean.dim():
            plain = dict(zip(_GEOMETRY, geometry, strict=False)) | dict(others)
            if not isinstance(plain.get("padding"), str):
                return draw_convolution(a, (weight.mean, kernel), (shift, spread), **plain)
        mean = func(a, weight.mean, shift, *geometry, **others)
        variance = func(a.square(), kernel, spread, *geometry, **others)
        return torch.addcmul(mean, variance.clamp(min=LEAST).sqrt(), normal_like(mean))
