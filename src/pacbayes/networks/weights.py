"""Draws of all weights: for REINFORCE, the paper's baseline, and for a network that is kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pacbayes.devices import wide
from pacbayes.networks import activations
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.draws import Draw
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.gaussian import gaussians, law_of, log_ratio
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network

__all__ = [
    "DrawnNetwork",
    "Weights",
    "are_errors",
    "count_errors",
    "draw_network",
    "draw_weights",
    "log_ratios",
    "prior_weights",
    "scores",
]

Weights = dict[str, Tensor]
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
def draw_network(network: Network, generator: np.random.Generator) -> DrawnNetwork:
    """Draw every weight once from Q, tensor by tensor in the order of their names.

    It uses numpy's generator, so that a verifier without torch can draw the same.
    """
    weights = {}
    for name, g in sorted(gaussians(network).items()):
        noise = torch.from_numpy(np.asarray(generator.standard_normal(tuple(g.mean.shape))))
        mean = wide(g.mean)
        weights[name] = mean + wide(g.log_scale).exp() * noise.to(mean.device)
    return DrawnNetwork(weights, log_ratios(network, weights))


def prior_weights(network: Network) -> Weights:
    """Return the weights of the network at the prior's means, in float64."""
    return {name: wide(g.prior_mean) for name, g in gaussians(network).items()}


@torch.no_grad()
def log_ratios(network: Network, weights: Weights) -> dict[str, float]:
    """Return ln(dQ/dP) of every Gaussian at drawn weights, in float64."""
    every = sorted(gaussians(network).items())
    return {name: log_ratio(law_of(g), weights[name]).item() for name, g in every}


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
    for i, function in enumerate(functions):
        layer = f"body.layers.{i}"
        a = function(a @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    z = a @ weights["layer.weight"].T + weights["layer.bias"]
    return network.task.scores(z)


def _below(weights: Weights, prefix: str) -> Weights:
    return {k.removeprefix(prefix): w for k, w in weights.items() if k.startswith(prefix)}


def count_errors(network: Network, weights: Weights, x: Tensor, y: Tensor) -> int:
    """Count the examples that the drawn network gets wrong; a tie is an error."""
    return int(are_errors(network, weights, x, y).sum())


def are_errors(network: Network, weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    """Return whether the drawn network gets each example wrong, (n,); a tie is an error."""
    blocks = zip(x.split(_BLOCK), y.split(_BLOCK), strict=True)
    found = []
    for inputs, labels in blocks:
        score = scores(network, weights, inputs)
        margin = network.task.margin(score, labels.to(score.device))
        found.append(~(margin > _CLOSE))
    return torch.cat(found)
