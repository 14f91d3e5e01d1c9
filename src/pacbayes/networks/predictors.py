"""Networks of known weights, and the decisions of each predictor.

All weights are drawn for REINFORCE, the paper's baseline, and for a network that is kept. A
predictor is the randomised classifier, the majority vote, or a network kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pacbayes.choices import Predictor
from pacbayes.devices import exact_device, wide
from pacbayes.networks import activations
from pacbayes.networks.activations import Draw
from pacbayes.networks.bodies import Dense, Deterministic, Evaluated
from pacbayes.networks.families import law_of, rounding
from pacbayes.networks.families.diagonal import GaussianLinear, Law, drawn, log_ratio
from pacbayes.networks.network import Network, first_layer
from pacbayes.networks.posterior import Weights, gaussians
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.networks.sampler import Places, Sampler, TorchSampler, final_pair, is_placed
from pacbayes.randomness import one_by_one

__all__ = [
    "Decisions",
    "DrawnNetwork",
    "Weights",
    "are_errors",
    "count_errors",
    "decide",
    "draw_network",
    "draw_weights",
    "log_ratios",
    "prior_weights",
    "scores",
]

_CLOSE = 1e-9  # scores no further apart than this are a tie, which is an error
_BLOCK = 2_000  # examples in float64, with their activations
_FEW = 500  # examples of a module's block, whose activations may be large


@torch.no_grad()
def _layer_draw(layer: GaussianLinear, a: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Draw weights and biases, (*sizes, …), and return their pre-activations, (T, B, outputs)."""
    W, b = layer.weight.sample(*sizes), layer.bias.sample(*sizes)
    if len(sizes) == 1:  # (T, out, in): a draw shared by the batch
        return W, b, torch.baddbmm(b.unsqueeze(1), a, W.mT)
    return W, b, (W @ a.unsqueeze(-1)).squeeze(-1) + b  # (T, B, out, in)


def draw_weights(network: Network, x: Tensor, T: int, *, per_example: bool = False) -> Draw:
    r"""T outputs sign(w·η_θ(x)) ∈ {−1, +1} of drawn weights, with log q(θ) counted (appendix).

    With `estimate` on the loss this is

        (1/TB) Σ_t Σ_i ℓ(f_{θ^t}(x_i), y_i) ∇log q(θ^t)            T draws shared by the batch, or
        (1/TB) Σ_t Σ_i ℓ(f_{θ^{t,i}}(x_i), y_i) ∇log q(θ^{t,i})    a draw for every example,

    the second with T·B weight matrices in memory.

    Returns:
        Draw of value (T, B); log_prob is (T, 1) if a draw is shared.
    """
    if not isinstance(network.body, Dense) or network.outputs > 1:
        raise ValueError(
            f"REINFORCE on weights needs a dense body and 2 classes, got {network.classes} classes "
            f"and a body {type(network.body).__name__}"
        )
    sizes = (T, len(x)) if per_example else (T,)
    a, log_q = x.expand(T, *x.shape), x.new_zeros(())
    layers = [*network.body.layers, network.layer]
    functions = [*(activations.FUNCTIONS[rule] for rule in network.body.rules), activations.sign_of]
    for layer, function in zip(layers, functions, strict=True):
        W, b, z = _layer_draw(layer, a, sizes)
        a = function(z)
        log_q = log_q + layer.weight.log_density(W) + layer.bias.log_density(b)
    return Draw(a.squeeze(-1), log_q if per_example else log_q.unsqueeze(-1))


@dataclass(frozen=True)
class DrawnNetwork:
    """Weights drawn from Q in float64, and ln(dQ/dP) at them, by the names of the Gaussians."""

    weights: Weights
    log_ratio: dict[str, float]


@torch.no_grad()
def draw_network(module: nn.Module, generator: np.random.Generator) -> DrawnNetwork:
    """Draw every weight once from Q, tensor by tensor in the order of their names.

    It uses numpy's generator, so that a verifier without torch can draw the same.
    """
    weights = {}
    for name, g in sorted(gaussians(module).items()):
        law = Law(*map(wide, law_of(g)))
        noise = torch.from_numpy(np.asarray(generator.standard_normal(tuple(law.mean.shape))))
        weights[name] = drawn(law, noise.to(law.mean.device))
    return DrawnNetwork(weights, log_ratios(module, weights))


def prior_weights(module: nn.Module) -> Weights:
    """Return the weights of the network at the prior's means, in float64."""
    return {name: wide(law_of(g).prior_mean) for name, g in gaussians(module).items()}


@torch.no_grad()
def log_ratios(module: nn.Module, weights: Weights) -> dict[str, float]:
    """Return ln(dQ/dP) of every Gaussian at drawn weights, in float64."""
    every = sorted(gaussians(module).items())
    return {
        name: log_ratio(law_of(g), weights[name]).item() + rounding(g, weights[name])
        for name, g in every
    }


@torch.no_grad()
def scores(network: Network, weights: Weights, x: Tensor) -> Tensor:
    """Return the drawn network's scores, (n,) or (n, k); the label is the sign or the largest."""
    return torch.cat([_scores(network, weights, block) for block in x.split(_BLOCK)])


def _scores(network: Network, weights: Weights, x: Tensor) -> Tensor:
    a, functions = x.to(weights["layer.bias"].device).double(), []
    if isinstance(network.body, Dense):
        functions = [activations.FUNCTIONS[rule] for rule in network.body.rules]
    elif isinstance(network.body, Deterministic):
        a = network.body.draw(a, 1).value[0]
    elif isinstance(network.body, Evaluated):
        own = _below(weights, "body.posterior.")
        a = torch.cat([network.body.checked(block, own) for block in a.split(_FEW)])
    a = first_layer(network).weight.seen(a)
    for i, function in enumerate(functions):
        layer = f"body.layers.{i}"
        a = function(a @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    z = a @ weights["layer.weight"].T + weights["layer.bias"]
    return network.task.scores(z)


def _below(weights: Weights, prefix: str) -> Weights:
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}


def count_errors(network: Network, weights: Weights, x: Tensor, y: Tensor, best: int = 1) -> int:
    """Count the examples that the drawn network gets wrong, as `are_errors` says."""
    return int(are_errors(network, weights, x, y, best).sum())


def are_errors(network: Network, weights: Weights, x: Tensor, y: Tensor, best: int = 1) -> Tensor:
    """Return whether the drawn network gets each example wrong, (n,); a tie is an error.

    Args:
        best: how many labels an answer has, those with the best scores; it errs without the right
            one.
    """
    blocks = zip(x.split(_BLOCK), y.split(_BLOCK), strict=True)
    found = []
    for inputs, labels in blocks:
        score = scores(network, weights, inputs)
        labels = labels.to(score.device)
        if best == 1:
            margin = network.task.margin(score, labels)
        else:  # how far the label is ahead of the first that it would keep out
            place = labels[:, None]
            others = score.scatter(-1, place, -inf).topk(best, -1).values
            margin = score.gather(-1, place)[:, 0] - others[:, -1]
        found.append(~(margin > _CLOSE))
    return torch.cat(found)


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
