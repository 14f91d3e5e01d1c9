"""Decisions of each predictor: the randomised classifier, the majority vote, a network kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pacbayes.choices import Predictor
from pacbayes.networks.network import Network
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.networks.weights import Weights, prior_weights, scores
from pacbayes.randomness import one_by_one

__all__ = ["Decisions", "decide"]


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
) -> Decisions:
    """Decide on every example.

    Draws belong to the seed and the example: fresh for every new one, the same when asked again.

    Args:
        samples: T, draws of a vote.
        weights: of the network that was drawn and kept.
    """
    return _RULES[predictor](network, x, seed, samples, weights or {})


def _randomised(
    network: Network, x: Tensor, seed: int, samples: int, weights: Weights
) -> Decisions:
    labels = one_by_one(partial(predict_randomised, network), x, seed)
    return Decisions(network.task.decode(labels))


def _vote(network: Network, x: Tensor, seed: int, samples: int, weights: Weights) -> Decisions:
    output = one_by_one(partial(majority_vote, network, samples=samples), x, seed)
    return Decisions(network.task.decide(output), output)


def _drawn(network: Network, x: Tensor, seed: int, samples: int, weights: Weights) -> Decisions:
    output = scores(network, weights, x)
    return Decisions(network.task.decide(output), output)


def _fixed(network: Network, x: Tensor, seed: int, samples: int, weights: Weights) -> Decisions:
    return _drawn(network, x, seed, samples, prior_weights(network))


_RULES: dict[Predictor, Callable[[Network, Tensor, int, int, Weights], Decisions]] = {
    Predictor.RANDOMISED: _randomised,
    Predictor.VOTE: _vote,
    Predictor.DRAWN: _drawn,
    Predictor.FIXED: _fixed,
}
