"""Certify one network that is drawn from Q and kept: deterministic, with a bound of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pacbayes.bounds.ledger import Ledger
from pacbayes.bounds.theorems import THEOREMS
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, Evidence, issue
from pacbayes.certificates.certify import assumed, checked_copy, for_seed
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.keys import draws_key
from pacbayes.networks.network import Network
from pacbayes.networks.risk import EmpiricalRisk
from pacbayes.networks.weights import DrawnNetwork, count_errors, draw_network
from pacbayes.randomness import keyed_generator

__all__ = ["certify_drawn"]

_ROUNDING = 1e-9  # of a log-ratio, relative


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
    assumptions: Assumptions | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> tuple[Certificate, DrawnNetwork]:
    """Draw networks from Q and certify the best of them by the disintegrated bound.

    The risk is the kept network's own error count, so there is no Monte-Carlo term. All drawn
    networks are paid for, so that the one with the best bound may be chosen. They are keyed by the
    hash of posterior and data, so there is no seed to try again with.

    Args:
        networks: how many are drawn.
        priors, repeats, sample, assumptions: as in `certify`.
    """
    if not isinstance(network.body, Dense | Deterministic):
        raise ValueError(
            "only a dense network, or a last layer on a fixed body, can be drawn and kept; "
            f"got a body {type(network.body).__name__}"
        )
    for name, value in (("networks", networks), ("priors", priors)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    exact = checked_copy(network, x, y, repeats=repeats, sample=sample)
    others = [f"other prior {i}, pac-bayes" for i in range(1, priors)]
    seed = network.prior_seed
    ledger = for_seed(delta, seed, lambda own: Ledger.equal(own, "pac-bayes", *others))
    key = draws_key(network, x, y)
    best: tuple[Certificate, DrawnNetwork] | None = None
    for number in range(networks):
        drawn = draw_network(exact, keyed_generator(key, number))
        errors = count_errors(exact, drawn.weights, x, y)
        certificate = issue(
            THEOREMS["disintegrated"],
            _evidence(drawn, errors, len(x)),
            ledger,
            "pac-bayes",
            keywords={"networks": networks},
            parameters={"networks": float(networks), "network": float(number)},
            assumptions=assumed(network, assumptions, repeats=repeats),
            provenance=provenance,
        )
        if best is None or certificate.bound < best[0].bound:
            best = certificate, drawn
    assert best is not None
    return best


def _evidence(drawn: DrawnNetwork, errors: int, n: int) -> Evidence:
    risk = EmpiricalRisk(errors / n, n, samples=0, draws=None)
    ratio = math.fsum(drawn.log_ratio.values())
    ratio += _ROUNDING * (1 + abs(ratio))
    return Evidence(risk, risk.mean, ratio, drawn.log_ratio)
