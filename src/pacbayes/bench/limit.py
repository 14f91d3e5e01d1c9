"""The speed limit of a step: its matrix products at the rate of large products on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import torch

from pacbayes.choices import Activation

__all__ = ["SIDE", "bare_products", "multiply_adds", "products", "square_product"]

SIDE = 512


def products(
    widths: tuple[int, ...], activation: Activation, T: int, B: int, *, learned: bool = False
) -> Iterator[tuple[int, int, int]]:
    """Yield the shapes (m, k, n) of the products of a training step with B examples.

    The first layer is computed once per example, the others for each of T samples. The gradient of
    the weights costs the same again. So does the gradient of the activations above the first layer,
    except for sign units, which use scores instead. Zeros in the input are counted as well.

    Args:
        learned: scales are learned. Variances then need products like those of the means, except
            where the inputs are signs, whose squares are one.
    """
    for layer, (d, e) in enumerate(pairwise(widths)):
        rows = B * T if layer else B
        signs = layer > 0 and activation == "sign"
        for _ in range(2 if learned and not signs else 1):
            yield rows, d, e
            yield e, rows, d
            if layer and not signs:
                yield rows, e, d


def multiply_adds(shapes: Iterable[tuple[int, int, int]]) -> int:
    """Return the number of multiply-adds of all products."""
    return sum(m * k * n for m, k, n in shapes)


def bare_products(shapes: Iterable[tuple[int, int, int]]) -> Callable[[int], object]:
    """Return a step that only multiplies: PyTorch at the step's shapes, which are not its best."""
    made = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def step(i: int) -> None:
        for a, b, out in made:
            torch.mm(a, b, out=out)

    return step


def square_product() -> Callable[[int], object]:
    """Return a product of 512×512 matrices, a shape at which PyTorch is fast."""
    return bare_products([(SIDE, SIDE, SIDE)])
