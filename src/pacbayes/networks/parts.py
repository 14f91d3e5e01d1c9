"""A risk in parts: what a part is, what is summed over it, and who computes the parts.

A part is a block of examples with some of their draws. Its sums depend on nothing but its own
examples and its place under the key, so anybody may compute it. The sums are added in the order of
the parts, so a risk has the same bits whoever computed them, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

__all__ = ["Executor", "Losses", "Part", "Sums", "Work", "all_parts", "in_turn"]

MOST_EXAMPLES = 20_000  # of a part: torch adds more than 32 768 numbers in parts, one for a thread


@dataclass(frozen=True)
class Part:
    """Examples from `start` to `stop`, and `draws` of each from the number `first`."""

    start: int
    stop: int
    first: int
    draws: int

    @property
    def examples(self) -> slice:
        """Where the examples are."""
        return slice(self.start, self.stop)


Losses = Callable[[Tensor, Tensor, Part], Tensor]  # of a part's examples and labels, (T, B)


@dataclass(frozen=True)
class Sums:
    """Sums over the draws of some examples."""

    total: float = 0.0  # over examples, of the mean over draws
    squares: float = 0.0
    within: float = 0.0  # of ½(X − X')² over pairs
    shared: float = 0.0  # the same for sums over a block, in units of the largest block
    tandem: float = 0.0  # of X·X' over pairs
    drawn: int = 0

    @classmethod
    def of(cls, losses: Tensor, share: float, largest: int) -> Sums:
        """Return the sums of losses, (T, B).

        Every sum goes over draws first and then over examples, for which torch has one order.

        Args:
            share: of these draws among all that the examples will have.
            largest: number of examples in the largest block.
        """
        half = len(losses) // 2
        pairs = losses[: 2 * half].reshape(half, 2, *losses.shape[1:])
        blocks = pairs.sum(-1) / largest
        return cls(
            total=share * losses.mean(0).sum().item(),
            squares=losses.square().sum(0).sum().item(),
            within=0.5 * pairs.diff(dim=1).square().sum((0, 1)).sum().item(),
            shared=0.5 * blocks.diff(dim=1).square().sum().item(),
            tandem=pairs.prod(1).sum(0).sum().item(),
            drawn=losses.numel(),
        )

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Work:
    """How to sum a part.

    Attributes:
        draws: of each example, in all parts.
        largest: number of examples in the largest block.
        threads: torch's number of threads, if the bits of losses depend on it.
    """

    losses: Losses
    draws: int
    largest: int
    threads: int | None = None

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor, part: Part) -> Sums:
        """Return the sums of a part, given its examples and their labels."""
        losses = self.losses(x, y, part).clamp(0, 1)  # only rounding exceeds these
        return Sums.of(losses, part.draws / self.draws, self.largest)


Executor = Callable[[Work, Tensor, Tensor, Sequence[Part]], Iterator[Sums]]


def in_turn(work: Work, x: Tensor, y: Tensor, parts: Sequence[Part]) -> Iterator[Sums]:
    """Compute the parts one after the other, in this process."""
    return (work(x[part.examples], y[part.examples], part) for part in parts)


def all_parts(n: int, size: int, draws: int, most: int) -> list[Part]:
    """Divide n examples into blocks of `size`, and their draws into at most `most` at a time."""
    return [
        Part(start, min(start + size, n), first, min(most, draws - first))
        for start in range(0, n, size)
        for first in range(0, draws, most)
    ]
