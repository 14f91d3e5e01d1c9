"""What a step cannot beat by multiplying: its matrix products at the best rate of this machine."""

from __future__ import annotations

import time
from itertools import pairwise

import torch

from pacbayes.choices import Activation

__all__ = ["multiply_adds", "sgemm_rate"]


def multiply_adds(
    widths: tuple[int, ...], activation: Activation, T: int, B: int, *, gradient: bool = True
) -> int:
    """Of the products of a step at unit variance, d₀–d₁–…–1 and B examples.

    The first layer is computed once per example, the others for each of T samples. The gradient of
    the weights costs as much again; that of the activations too, above the first layer, where there
    is a path (signs have scores instead). Zeros of the input count like any number.
    """
    first, *others = (d * e for d, e in pairwise(widths))
    forward = B * first + B * T * sum(others)
    if not gradient:
        return forward
    below = 0 if activation == "sign" else B * T * sum(others)
    return 2 * forward + below


def sgemm_rate(seconds: float = 0.3) -> float:
    """Multiply-adds a second of 512×512 products, the fastest of those made in the given time."""
    a, b, out = (torch.rand(512, 512) for _ in range(3))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - start)
    return 512**3 / best
