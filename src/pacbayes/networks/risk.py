"""Empirical risk over a data set, and predictions, in blocks of flat memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pacbayes.data.checks import check_examples
from pacbayes.devices import wide
from pacbayes.networks.bodies import Freshness
from pacbayes.networks.exact import exact_aggregate
from pacbayes.networks.network import Network
from pacbayes.networks.places import Places
from pacbayes.networks.sampler import Sampler, TorchSampler
from pacbayes.randomness import keyed_generator

__all__ = [
    "EmpiricalRisk",
    "Follow",
    "empirical_risk",
    "exact_risk",
    "keyed_mean",
    "keyed_risk",
    "majority_vote",
    "predict_randomised",
]

Blocks = list[tuple[Tensor, Tensor]]
Follow = Callable[[Blocks], Iterator[tuple[Tensor, Tensor]]]

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


@dataclass
class _Sums:
    """Sums over the draws of all examples, (T, B) at a time."""

    total: float = 0.0  # over examples, of the mean over draws
    squares: float = 0.0
    within: float = 0.0  # of ½(X − X')² over pairs
    shared: float = 0.0  # the same for sums over a block, in units of the largest block
    tandem: float = 0.0  # of X·X' over pairs
    drawn: int = 0
    largest: int = 0  # examples in one block

    def add(self, losses: Tensor, share: float = 1.0) -> None:
        """Add draws of some examples, a share of all the draws that these will have."""
        self.total += share * losses.mean(0).sum().item()
        self.squares += losses.square().sum().item()
        self.drawn += losses.numel()
        self.largest = max(self.largest, losses.shape[1])
        half = len(losses) // 2
        pairs = losses[: 2 * half].reshape(half, 2, *losses.shape[1:])
        self.within += 0.5 * pairs.diff(dim=1).square().sum().item()
        blocks = pairs.sum(-1) / self.largest  # the first block is the largest
        self.shared += 0.5 * blocks.diff(dim=1).square().sum().item()
        self.tandem += pairs.prod(1).sum().item()

    def risk(self, n: int, samples: int, freshness: Freshness) -> EmpiricalRisk:
        """Return the risk of n examples, `samples` draws of each; exact draws are one."""
        mean = self.total / n
        variance = max(0.0, self.squares - self.drawn * mean**2) / max(1, self.drawn - 1)
        if freshness == "exact":
            return EmpiricalRisk(mean, n, 0, None, variance, tandem=self.squares / self.drawn)
        own, pairs = freshness == "per-example", n * (samples // 2)
        within = self.within if own else self.shared * self.largest
        return EmpiricalRisk(
            mean=mean,
            n=n,
            samples=samples,
            draws=n * samples / (1 if own else self.largest),
            variance=variance,
            within=within / pairs if pairs else None,
            tandem=self.tandem / pairs if pairs else None,
        )


@torch.no_grad()
def empirical_risk(network: Network, x: Tensor, y: Tensor, samples: int) -> EmpiricalRisk:
    """Measure E_Q R_S by fresh draws for every example, or exactly if the body is deterministic."""
    check_examples(x, y, network.task)
    n, sums = len(x), _Sums()
    for block in _blocks(network, n, samples):
        value = wide(network.draw(x[block], samples).value)
        sums.add(network.loss(value, y[block]).clamp(0, 1))  # only rounding exceeds these
    return sums.risk(n, samples, network.freshness)


@torch.no_grad()
def keyed_risk(
    network: Network,
    x: Tensor,
    y: Tensor,
    samples: int,
    key: bytes,
    sampler: Sampler | None = None,
    follow: Follow = iter,
) -> EmpiricalRisk:
    """Measure E_Q R_S by draws that a key determines, in float64.

    A verifier without torch can draw the same numbers again. In a dense body every number has its
    own place under the key (`networks.places`). In other bodies a block of 64 examples and 100
    draws has a generator of numpy, in the network's precision.

    Args:
        sampler: of a dense body, another than PyTorch's.
        follow: passes on the blocks of a body whose draws they share, perhaps showing progress.
    """
    check_examples(x, y, network.task)
    if network.body.freshness == "per-example":
        return _placed_risk(x, y, samples, key, sampler or TorchSampler(network))

    def losses(inputs: Tensor, labels: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        inputs = inputs.to(network.layer.bias.mean)  # a block at a time, to keep memory flat
        return network.loss(wide(network.draw_with(inputs, T, generator)), labels)

    return keyed_mean(losses, x, y, samples, key, network.body.freshness, follow)


@torch.no_grad()
def keyed_mean(
    losses: Callable[[Tensor, Tensor, int, np.random.Generator], Tensor],
    x: Tensor,
    y: Tensor,
    samples: int,
    key: bytes,
    freshness: Freshness,
    follow: Follow = iter,
) -> EmpiricalRisk:
    """Average losses, (T, B) for a block of examples and labels at T draws by a generator."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    size = _FEW if freshness == "per-batch" else _EXAMPLES
    draws = 1 if freshness == "exact" else samples
    sums = _Sums()
    blocks = list(zip(x.split(size), y.split(size), strict=True))
    for block, (inputs, labels) in enumerate(follow(blocks)):
        for part in range(0, draws, _DRAWS):
            T = min(_DRAWS, draws - part)
            generator = keyed_generator(key, block, part // _DRAWS)
            sums.add(losses(inputs, labels, T, generator).clamp(0, 1), T / draws)
    return sums.risk(len(x), samples, freshness)


def _placed_risk(x: Tensor, y: Tensor, samples: int, key: bytes, sampler: Sampler) -> EmpiricalRisk:
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    places, sums = Places.of_set(key, len(x), samples), _Sums()
    size = sampler.rows // min(samples, _DRAWS)
    size = max(1, min(size, _NUMBERS * len(x) // x.numel()))
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        for first in range(0, samples, _DRAWS):  # an even number, so that pairs stay together
            T = min(_DRAWS, samples - first)
            losses = sampler.losses(x[block], y[block], places.part(block, first, T))
            sums.add(losses.clamp(0, 1), T / samples)
    return sums.risk(len(x), samples, "per-example")


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
    blocks = _blocks(network, len(x), samples)
    return torch.cat([network.draw(x[block], samples).value.mean(0) for block in blocks])


def _blocks(network: Network, n: int, samples: int) -> Iterator[slice]:
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    rows = _ROWS // (1 if network.task.outputs == 1 else 10)  # classes have a grid each
    size = _FEW if network.freshness == "per-batch" else max(1, rows // samples)
    return (slice(start, start + size) for start in range(0, n, size))
