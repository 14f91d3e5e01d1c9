"""Empirical risk over a data set, and predictions, in parts of flat memory.

A part is a block of examples with some of their draws. Its sums depend on nothing but its own
examples and its place under the key, so anybody may compute it. The sums are added in the order of
the parts, so a risk has the same bits whoever computed them, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor

from pacbayes.data.tasks import check_examples
from pacbayes.devices import wide
from pacbayes.networks.bodies import Freshness
from pacbayes.networks.network import Network, exact_aggregate
from pacbayes.networks.sampler import Places, Sampler, TorchSampler
from pacbayes.randomness import keyed_generator

__all__ = [
    "EmpiricalRisk",
    "Executor",
    "Losses",
    "Part",
    "Sums",
    "Work",
    "all_parts",
    "empirical_risk",
    "exact_risk",
    "in_turn",
    "keyed_mean",
    "keyed_risk",
    "majority_vote",
    "predict_randomised",
]

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


_ROWS = 20_000  # of T·B per block, to keep memory flat and the working set near the cache
_NUMBERS = 2_000_000  # features of a block, which the engine holds in float64
_FEW = 64  # examples in a block that shares a draw (fewer give more draws) or is summed exactly
_EXAMPLES, _DRAWS = 20, 100  # of a block of keyed draws; where it has a generator of its own, this
# is part of what a certificate is


@dataclass(frozen=True)
class EmpiricalRisk:
    """The sampled R_S^lin(F_Q) and its accuracy.

    Attributes:
        mean: mean linear loss, which is the randomised classifier's 0-1 risk.
        n: number of examples, each counted once.
        samples: T, draws of the network for each example; 0 if summed exactly.
        draws: independent draws in total: n·T if every example has its own, fewer if a batch shares
            them, None if nothing was sampled and the mean is exact.
        variance: sample variance of all draws, over n·T − 1.
        within: mean of ½(X − X')² over disjoint pairs of draws of one example, ⌊T/2⌋ for each; X is
            the mean of a block where its examples share a draw. None if there is only one draw.
        tandem: mean of X·X' over such pairs, the probability that two networks err together; exact
            if nothing was sampled, None if there is only one draw.
    """

    mean: float
    n: int
    samples: int
    draws: float | None
    variance: float = 0.0
    within: float | None = None
    tandem: float | None = None

    def of_pairs(self) -> EmpiricalRisk:
        """Return the tandem risk, with the number of pairs it averages."""
        if self.tandem is None:
            raise ValueError(f"the risk of pairs needs at least 2 samples, got {self.samples}")
        pairs = None if self.draws is None else self.draws / self.samples * (self.samples // 2)
        numbers = (self.tandem, self.n, self.samples, pairs)
        return EmpiricalRisk(*numbers, tandem=self.tandem)


@torch.no_grad()
def empirical_risk(network: Network, x: Tensor, y: Tensor, samples: int) -> EmpiricalRisk:
    """Measure E_Q R_S by fresh draws for every example, or exactly if the body is deterministic."""
    check_examples(x, y, network.task)
    parts = all_parts(len(x), _block_size(network, samples), samples, most=samples)

    def losses(inputs: Tensor, labels: Tensor, part: Part) -> Tensor:
        return network.loss(wide(network.draw(inputs, part.draws).value), labels)

    return _measured(losses, x, y, parts, samples, network.freshness)


@torch.no_grad()
def keyed_risk(
    network: Network,
    x: Tensor,
    y: Tensor,
    samples: int,
    key: bytes,
    sampler: Sampler | None = None,
    executor: Executor = in_turn,
) -> EmpiricalRisk:
    """Measure E_Q R_S by draws that a key determines, in float64.

    A verifier without torch can draw the same numbers again. In a dense body every number has its
    own place under the key (`networks.sampler`). In other bodies a block of 64 examples and 100
    draws has a generator of numpy, in the network's precision.

    Args:
        sampler: of a dense body, another than PyTorch's.
        executor: who computes the parts of the risk.
    """
    check_examples(x, y, network.task)
    freshness = network.body.freshness
    if freshness != "per-example":
        return keyed_mean(_Drawn(network), x, y, samples, key, freshness, executor)
    _check_samples(samples)
    sampler = sampler or TorchSampler(network)
    size = min(sampler.rows // min(samples, _DRAWS), _NUMBERS * len(x) // x.numel(), MOST_EXAMPLES)
    parts = all_parts(len(x), max(1, size), samples, most=_DRAWS)
    return _measured(_Placed(sampler, key), x, y, parts, samples, freshness, executor)


@torch.no_grad()
def keyed_mean(
    losses: Callable[[Tensor, Tensor, int, np.random.Generator], Tensor],
    x: Tensor,
    y: Tensor,
    samples: int,
    key: bytes,
    freshness: Freshness,
    executor: Executor = in_turn,
) -> EmpiricalRisk:
    """Average losses, (T, B) for a block of examples and labels at T draws by a generator."""
    _check_samples(samples)
    size = _FEW if freshness == "per-batch" else _EXAMPLES
    draws = 1 if freshness == "exact" else samples
    parts = all_parts(len(x), size, draws, most=_DRAWS)
    return _measured(_Generated(losses, key, size), x, y, parts, samples, freshness, executor)


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")


def _measured(
    losses: Losses,
    x: Tensor,
    y: Tensor,
    parts: Sequence[Part],
    samples: int,
    freshness: Freshness,
    executor: Executor = in_turn,
) -> EmpiricalRisk:
    draws, largest = parts[-1].first + parts[-1].draws, parts[0].stop
    steady = isinstance(losses, _Placed) and losses.sampler.steady
    work = Work(losses, draws, largest, None if steady else torch.get_num_threads())
    sums = sum(executor(work, x, y, parts), Sums())
    return _risk(sums, len(x), samples, freshness, largest)


def _risk(sums: Sums, n: int, samples: int, freshness: Freshness, largest: int) -> EmpiricalRisk:
    """Return the risk of n examples, `samples` draws of each; exact draws are one."""
    mean = sums.total / n
    variance = max(0.0, sums.squares - sums.drawn * mean**2) / max(1, sums.drawn - 1)
    if freshness == "exact":
        return EmpiricalRisk(mean, n, 0, None, variance, tandem=sums.squares / sums.drawn)
    own, pairs = freshness == "per-example", n * (samples // 2)
    within = sums.within if own else sums.shared * largest
    return EmpiricalRisk(
        mean=mean,
        n=n,
        samples=samples,
        draws=n * samples / (1 if own else largest),
        variance=variance,
        within=within / pairs if pairs else None,
        tandem=sums.tandem / pairs if pairs else None,
    )


@dataclass(frozen=True)
class _Placed:
    """Losses of draws at their places."""

    sampler: Sampler
    key: bytes

    def __call__(self, x: Tensor, y: Tensor, part: Part) -> Tensor:
        places = Places.of_set(self.key, range(part.start, part.stop), part.draws, part.first)
        return self.sampler.losses(x, y, places)


@dataclass(frozen=True)
class _Generated:
    """Losses of draws by a generator for each block of examples and each hundred draws."""

    losses: Callable[[Tensor, Tensor, int, np.random.Generator], Tensor]
    key: bytes
    size: int

    def __call__(self, x: Tensor, y: Tensor, part: Part) -> Tensor:
        block, hundred = part.start // self.size, part.first // _DRAWS
        return self.losses(x, y, part.draws, keyed_generator(self.key, block, hundred))


@dataclass(frozen=True)
class _Drawn:
    """Losses of a network at draws by a generator."""

    network: Network

    def __call__(self, x: Tensor, y: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        x = x.to(self.network.layer.bias.mean)  # a block at a time, to keep memory flat
        return self.network.loss(wide(self.network.draw_with(x, T, generator)), y)


@torch.no_grad()
def exact_risk(network: Network, x: Tensor, y: Tensor) -> EmpiricalRisk:
    """Compute R_S^lin(F_Q) of a small all-sign network by the iterated sum, without sampling."""
    check_examples(x, y, network.task)
    total = squares = 0.0
    for inputs, labels in zip(x.split(_FEW), y.split(_FEW), strict=True):
        output = exact_aggregate(network, inputs.to(network.layer.bias.mean))
        losses = network.loss(wide(output), labels)
        total += losses.sum().item()
        squares += losses.square().sum().item()
    return EmpiricalRisk(total / len(x), len(x), 0, None, tandem=squares / len(x))


@torch.no_grad()
def predict_randomised(network: Network, x: Tensor, *, shared: int = 1) -> Tensor:
    """Draw a label with fresh weights for every example, ±1 or an index: what the bound covers.

    Args:
        shared: examples that share a draw, where weights are drawn for a batch. Each label keeps
            its distribution and an error rate its mean; labels of a block depend on each other.
    """
    blocks = []
    size = shared if network.freshness == "per-batch" else _ROWS
    for inputs in x.split(size):
        blocks.append(network.task.draw(network.draw(inputs, 1).value[0]))
    return torch.cat(blocks)


@torch.no_grad()
def majority_vote(network: Network, x: Tensor, samples: int) -> Tensor:
    """Return the mean output over the draws, by which the majority votes.

    For two classes it is F̂_Q(x) ∈ [−1, 1], whose sign is the vote; for more it is every class's
    share, and the largest share wins.
    """
    blocks = x.split(_block_size(network, samples))
    return torch.cat([network.draw(block, samples).value.mean(0) for block in blocks])


def _block_size(network: Network, samples: int) -> int:
    _check_samples(samples)
    rows = _ROWS // (1 if network.task.outputs == 1 else 10)  # classes have a grid each
    return _FEW if network.freshness == "per-batch" else max(1, rows // samples)
