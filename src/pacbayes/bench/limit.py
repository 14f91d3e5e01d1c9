"""The speed limit of a step: its matrix products at the best rate of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import torch

from pacbayes.choices import Activation

__all__ = ["bare_products", "multiply_adds", "products", "sgemm_rate"]


def products(
    widths: tuple[int, ...], activation: Activation, T: int, B: int, *, gradient: bool = True
) -> Iterator[tuple[int, int, int]]:
    """Yield the shapes (m, k, n) of a step's products at unit variance, for B examples.

    The first layer is computed once per example, the others for each of T samples. The gradient of
    the weights costs the same again. So does the gradient of the activations above the first layer,
    except for sign units, which use scores instead. Zeros in the input are counted as well.
    """
    for layer, (d, e) in enumerate(pairwise(widths)):
        rows = B * T if layer else B
        yield rows, d, e
        if gradient:
            yield e, rows, d
            if layer and activation != "sign":
                yield rows, e, d


def multiply_adds(shapes: Iterable[tuple[int, int, int]]) -> int:
    """Return the number of multiply-adds of all products."""
    return sum(m * k * n for m, k, n in shapes)


def bare_products(shapes: Iterable[tuple[int, int, int]]) -> Callable[[int], None]:
    """Return a step that only multiplies: PyTorch at the step's shapes, which are not its best."""
    made = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def step(i: int) -> None:
        for a, b, out in made:
            torch.mm(a, b, out=out)

    return step


def sgemm_rate(seconds: float = 0.3) -> float:
    """Return multiply-adds per second of the fastest 512×512 product in the given time."""
    a, b, out = (torch.rand(512, 512) for _ in range(3))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - start)
    return 512**3 / best
