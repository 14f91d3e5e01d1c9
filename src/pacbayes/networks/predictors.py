"""Decisions of each predictor: the randomised classifier, the majority vote, a network kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.choices import Predictor
from pacbayes.devices import exact_device
from pacbayes.networks.network import Network
from pacbayes.networks.places import Places
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.networks.sampler import Sampler, TorchSampler, final_pair, is_placed
from pacbayes.networks.weights import Weights, prior_weights, scores
from pacbayes.randomness import one_by_one

__all__ = ["Decisions", "decide"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Decisions:
    """The decisions of a predictor.

    Attributes:
        index: class indices, (B,).
        output: what the decision goes by: mean output of a vote, scores of a network kept; None
            where labels are drawn.
    """

    index: Tensor
    output: Tensor | None = None


def decide(
    network: Network,
    predictor: Predictor,
    x: Tensor,
    *,
    seed: int,
    samples: int = 100,
    weights: Weights | None = None,
    sampler: Sampler | None = None,
) -> Decisions:
    """Decide on every example.

    Draws belong to the seed and the example: fresh for every new one, the same when asked again.

    Args:
        samples: T, draws of a vote.
        weights: of the network that was drawn and kept.
        sampler: of a dense body, another than PyTorch's.
    """
    if is_placed(network) and sampler is None:
        sampler = TorchSampler(network)
    return _RULES[predictor](_Question(network, x, seed, samples, weights or {}, sampler))


@dataclass(frozen=True)
class _Question:
    network: Network
    x: Tensor
    seed: int
    samples: int
    weights: Weights
    sampler: Sampler | None  # None if the body's draws have no places

    def placed(self, draws: int) -> Iterator[tuple[Places, Tensor]]:
        """Yield places and outputs, (T, B) or (T, B, k), block by block of examples."""
        assert self.sampler is not None
        size = max(1, self.sampler.rows // (draws * self.network.outputs))
        for x in self.x.split(size):
            places = Places.of_content(x, self.seed, draws)
            yield places, self.sampler.outputs(x, places)


def _randomised(q: _Question) -> Decisions:
    if q.sampler is None:
        labels = one_by_one(partial(predict_randomised, q.network), q.x, q.seed)
        return Decisions(q.network.task.decode(labels))
    pair = final_pair(q.network)
    blocks = [
        _drawn_index(q.network.task.shares(output[0]), places.uniforms(pair, 1)[0, :, 0])
        for places, output in q.placed(1)
    ]
    return Decisions(torch.cat(blocks) if blocks else _nothing(q, 0).long())


def _drawn_index(shares: Tensor, uniform: Array) -> Tensor:
    """Return the class in whose part of (0, 1) a uniform number lies."""
    ends = shares.cumsum(-1)
    below = torch.from_numpy(uniform).to(ends.device).unsqueeze(-1) * ends[:, -1:] >= ends
    return below.sum(-1).clamp(max=shares.shape[-1] - 1)


def _vote(q: _Question) -> Decisions:
    if q.samples < 1:
        raise ValueError(f"samples must be at least 1, got {q.samples}")
    if q.sampler is None:
        output = one_by_one(partial(majority_vote, q.network, samples=q.samples), q.x, q.seed)
    else:
        blocks = [output.mean(0) for _, output in q.placed(q.samples)]
        shape = (0,) if q.network.outputs == 1 else (0, q.network.outputs)
        output = torch.cat(blocks) if blocks else _nothing(q, *shape)
    return Decisions(q.network.task.decide(output), output)


def _nothing(q: _Question, *shape: int) -> Tensor:
    """Return the output for no examples."""
    return torch.zeros(shape, dtype=torch.float64, device=exact_device(q.x.device))


def _drawn(q: _Question) -> Decisions:
    return _of_weights(q, q.weights)


def _fixed(q: _Question) -> Decisions:
    return _of_weights(q, prior_weights(q.network))


def _of_weights(q: _Question, weights: Weights) -> Decisions:
    output = scores(q.network, weights, q.x)
    return Decisions(q.network.task.decide(output), output)


_RULES: dict[Predictor, Callable[[_Question], Decisions]] = {
    Predictor.RANDOMISED: _randomised,
    Predictor.VOTE: _vote,
    Predictor.DRAWN: _drawn,
    Predictor.FIXED: _fixed,
}
