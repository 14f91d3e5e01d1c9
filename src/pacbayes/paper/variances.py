"""Variances of the estimators: of outputs, with and without aggregation, and of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor

from pacbayes.choices import Estimator
from pacbayes.networks import heads
from pacbayes.networks.architecture import ESTIMATORS_OF_MANY, DenseArchitecture
from pacbayes.networks.draws import Draw, estimate, leave_one_out
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
    if network.outputs > 1:
        raise ValueError(f"a sampled sign needs 2 classes, got {network.classes}")
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
    """Total variance of the gradient of the linear loss of a network, by estimator and T.

    Of sign units, by the estimators that there are for its classes; relu and sigmoid are pathwise,
    and with two classes REINFORCE is there too. Straight-through is also biased; this is its
    variance alone. NaN where T is too small.
    """
    own = network.architecture
    if own is None or not own.widths or not own.describes(network):
        raise ValueError(
            "gradients are compared for networks with hidden layers as dense_network builds them, "
            f"unchanged; got a body {type(network.body).__name__}"
        )
    found: dict[str, list[float]] = {}
    for name, estimator in _estimators_for(own).items():
        same = replace(own, estimator=estimator).build()
        same.load_state_dict(network.state_dict())
        loss = _reinforced if estimator == "reinforce" else _loss
        found[name] = [_gradient_variance(same, loss, x, y, T, repeats) for T in samples]
    return found


def _estimators_for(own: DenseArchitecture) -> dict[str, Estimator]:
    """Return the estimators that a network has, by their names."""
    if own.activation != "sign":
        several: dict[str, Estimator] = {"pathwise": own.estimator}
    elif own.classes == 2:
        several = {e: e for e in ESTIMATORS}
    else:
        several = {e: e for e in ESTIMATORS_OF_MANY}
    return several | ({"reinforce": "reinforce"} if own.classes == 2 else {})


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
    if network.baseline is leave_one_out and T < 2:
        return float("nan")
    gradients = [_gradient(network, sampled_loss(network, x, y, T)) for _ in range(repeats)]
    return torch.stack(gradients).var(0).sum().item()


def _gradient(network: Network, loss: Tensor) -> Tensor:
    found = torch.autograd.grad(loss, list(network.parameters()))
    return torch.cat([g.flatten() for g in found])
