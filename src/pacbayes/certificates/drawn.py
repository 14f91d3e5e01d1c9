"""Networks drawn once from Q and kept: deterministic, and certified each by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.certificate import Certificate, checked_copy, contributions
from pacbayes.choices import DRAWN
from pacbayes.networks.activations import FUNCTIONS
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.gaussian import gaussians
from pacbayes.networks.network import Network

__all__ = ["DrawnNetwork", "certify_drawn", "draw_network", "scores"]

Weights = dict[str, Tensor]
_CLOSE = 1e-9  # scores no further apart than this are a tie, which is an error
_BLOCK = 10_000
_ROUNDING = 1e-9  # of a log-ratio, relative


@dataclass(frozen=True)
class DrawnNetwork:
    """Weights drawn from Q, in float64, and ln(dQ/dP) at them, by the names of the Gaussians."""

    weights: Weights
    log_ratio: dict[str, float]


@torch.no_grad()
def draw_network(network: Network, generator: np.random.Generator) -> DrawnNetwork:
    """One draw from Q of every weight, tensor by tensor in the order of their names.

    Numpy's generator, so that a verifier without torch can draw the same.
    """
    weights, ratios = {}, {}
    for name, g in sorted(gaussians(network).items()):
        mean, s, s0 = g.mean.double(), g.log_scale.double(), g.prior_log_scale.double()
        noise = torch.from_numpy(generator.standard_normal(tuple(mean.shape)))
        w = mean + s.exp() * noise
        far = (w - g.prior_mean.double()) * (-s0).exp()
        near = (w - mean) * (-s).exp()
        weights[name] = w
        ratios[name] = (0.5 * (far.square() - near.square()) + s0 - s).sum().item()
    return DrawnNetwork(weights, ratios)


@torch.no_grad()
def scores(network: Network, weights: Weights, x: Tensor) -> Tensor:
    """The drawn network at examples, (B,) or (B, k); the label is the sign or the largest."""
    a, functions = x.double(), []
    if isinstance(network.body, Dense):
        functions = [FUNCTIONS[rule] for rule in network.body.rules]
    elif isinstance(network.body, Deterministic):
        a = network.body.draw(a, 1).value[0]
    for i, function in enumerate(functions):
        layer = f"body.layers.{i}"
        a = function(a @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    z = a @ weights["layer.weight"].T + weights["layer.bias"]
    return z.squeeze(-1) if network.outputs == 1 else z


def certify_drawn(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    networks: int = 1,
    delta: float = 0.05,
    priors: int = 1,
    repeats: bool = False,
    sample: tuple[Tensor, Tensor] | None = None,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> tuple[Certificate, DrawnNetwork]:
    """Draw networks from Q and certify the best of them by the disintegrated bound.

    Nothing is sampled beyond the draw itself: the risk is the kept network's own, counted. All of
    them pay, so that the one with the best bound may be chosen.

    Args:
        networks: how many are drawn.
        priors, sample: as in `certify`.
    """
    if not isinstance(network.body, Dense | Deterministic):
        raise ValueError("only dense networks, or a last layer on a fixed body, can be kept")
    if networks < 1:
        raise ValueError(f"networks must be at least 1, got {networks}")
    if priors < 1:
        raise ValueError(f"priors must be at least 1, got {priors}")
    exact = checked_copy(network, x, y, repeats=repeats, sample=sample)
    others = [f"other prior {i}, pac-bayes" for i in range(1, priors)]
    ledger = Ledger.equal(delta, "pac-bayes", *others)
    generator = np.random.default_rng(seed)
    best: tuple[float, int, float, float, DrawnNetwork] | None = None
    for number in range(networks):
        drawn = draw_network(exact, generator)
        risk = _errors(exact, drawn.weights, x, y) / len(x)
        ratio = math.fsum(drawn.log_ratio.values())
        ratio += _ROUNDING * (1 + abs(ratio))
        value = bounds.disintegrated(risk, ratio, len(x), ledger["pac-bayes"], networks=networks)
        if best is None or value < best[0]:
            best = value, number, risk, ratio, drawn
    assert best is not None
    value, number, risk, ratio, drawn = best
    without = bounds.disintegrated(risk, 0.0, len(x), ledger["pac-bayes"], networks=networks)
    lam = bounds.catoni_lambda(risk, max(0.0, ratio), len(x), delta)
    certificate = Certificate(
        predictor=DRAWN,
        bound=value,
        bound_name="disintegrated",
        parameters={"networks": float(networks), "network": float(number)},
        delta=delta,
        ledger=dict(ledger.parts),
        risk=risk,
        risk_upper=risk,
        monte_carlo=None,
        samples=0,
        draws=None,
        variance=0.0,
        within=None,
        quadrature_step=None,
        quadrature_error=0.0,
        n=len(x),
        kl=ratio,
        kl_by_part=drawn.log_ratio,
        contributions=contributions(risk, risk, without, value, drawn.log_ratio),
        held_out=bounds.clopper_pearson(risk, len(x), delta),
        catoni=bounds.catoni(risk, max(0.0, ratio), len(x), delta, lam=lam),
        catoni_lambda=lam,
        provenance=dict(provenance or {}),
    )
    return certificate, drawn


def _errors(network: Network, weights: Weights, x: Tensor, y: Tensor) -> int:
    """How many examples the drawn network gets wrong; a tie is an error."""
    wrong = 0
    for inputs, labels in zip(x.split(_BLOCK), y.split(_BLOCK), strict=True):
        z = scores(network, weights, inputs)
        if network.outputs == 1:
            margin = z * labels
        else:
            own = z.gather(1, labels.unsqueeze(1)).squeeze(1)
            margin = own - z.scatter(1, labels.unsqueeze(1), -math.inf).amax(1)
        wrong += int((~(margin > _CLOSE)).sum())
    return wrong
