"""Local draws in any module: linear maps and convolutions draw their outputs, not their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, linear
from torch.overrides import TorchFunctionMode

from pacbayes.networks.gaussian import Gaussian
from pacbayes.networks.local_convolution import LEAST, draw_convolution, in_same_layout
from pacbayes.randomness import normal_like

__all__ = ["LocalDraws"]

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
