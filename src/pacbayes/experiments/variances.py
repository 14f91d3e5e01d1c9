"""Variances of the estimators: of outputs, with and without aggregation, and of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

import torch
from torch import Tensor

from pacbayes.choices import Estimator
from pacbayes.networks import heads
from pacbayes.networks.architecture import dense_network
from pacbayes.networks.bodies import Dense
from pacbayes.networks.draws import Draw, estimate
from pacbayes.networks.network import Network
from pacbayes.networks.weights import draw_weights

__all__ = ["ESTIMATORS", "gradient_variances", "output_variances"]

ESTIMATORS: tuple[Estimator, ...] = tuple(
    e
    for e in get_args(Estimator)
    if e != "reinforce-per-example"  # T·B weight matrices
)


@torch.no_grad()
def output_variances(
    network: Network, x: Tensor, samples: Sequence[int], repeats: int = 200
) -> dict[str, list[float]]:
    """Mean over examples of Var F̂ (a sampled sign) and Var F̂* (aggregated), for each T.

    The paper's propositions: the second is never above the first.
    """
    kept, found = network.head, {}
    try:
        for name, head in (("sampled", heads.sampled), ("aggregated", heads.aggregated)):
            network.head = head
            found[name] = [_output_variance(network, x, T, repeats) for T in samples]
    finally:
        network.head = kept
    return found


def _output_variance(network: Network, x: Tensor, T: int, repeats: int) -> float:
    outputs = torch.stack([network.draw(x, T).value.mean(0) for _ in range(repeats)])
    return outputs.var(0).mean().item()


def gradient_variances(
    network: Network, x: Tensor, y: Tensor, samples: Sequence[int], repeats: int = 100
) -> dict[str, list[float]]:
    """Total variance of the gradient of the linear loss of a sign network, by estimator and T.

    Straight-through is also biased; this is its variance alone. NaN where T is too small.
    """
    found: dict[str, list[float]] = {}
    state = network.state_dict()
    widths = [state[f"body.layers.{i}.bias.mean"].numel() for i in range(_depth(network))]
    for estimator in ESTIMATORS:
        same = dense_network(x.shape[1], widths, "sign", estimator=estimator)
        same.load_state_dict(state)
        loss = _reinforced if estimator == "reinforce" else _loss
        found[estimator] = [_gradient_variance(same, loss, x, y, T, repeats) for T in samples]
    return found


def _depth(network: Network) -> int:
    return len(network.body.layers) if isinstance(network.body, Dense) else 0


def _loss(network: Network, x: Tensor, y: Tensor, T: int) -> Tensor:
    return network.loss(network(x, T), y).mean()


def _reinforced(network: Network, x: Tensor, y: Tensor, T: int) -> Tensor:
    draw = draw_weights(network, x, T)
    return estimate(Draw(network.loss(draw.value, y), draw.log_prob)).mean()


def _gradient_variance(
    network: Network,
    sampled_loss: Callable[[Network, Tensor, Tensor, int], Tensor],
    x: Tensor,
    y: Tensor,
    T: int,
    repeats: int,
) -> float:
    try:
        gradients = [_gradient(network, sampled_loss(network, x, y, T)) for _ in range(repeats)]
    except ValueError:  # leave-one-out needs two
        return float("nan")
    return torch.stack(gradients).var(0).sum().item()


def _gradient(network: Network, loss: Tensor) -> Tensor:
    found = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([g.flatten() for g in found])
