"""Certify one network whose weights are known: drawn from Q and kept, or at the prior's means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pacbayes.bounds.ledger import Ledger
from pacbayes.bounds.theorems import THEOREMS, Theorem
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, Evidence, issue
from pacbayes.certificates.certify import assumed, beside, checked_copy, for_seed, guessed
from pacbayes.devices import CPU, device_of
from pacbayes.losses.bounded import loss_of, of_units
from pacbayes.networks.bodies import Dense, Deterministic, Evaluated
from pacbayes.networks.network import Network
from pacbayes.networks.plain import plain_copy
from pacbayes.networks.posterior import Weights, draws_key
from pacbayes.networks.predictors import (
    DrawnNetwork,
    are_errors,
    count_errors,
    draw_network,
    prior_weights,
)
from pacbayes.networks.risk import EmpiricalRisk
from pacbayes.randomness import keyed_generator

__all__ = ["certify_drawn", "certify_fixed", "certify_network", "prior_error"]

_ROUNDING = 1e-9  # of a log-ratio, relative
_BLOCK = 10_000  # examples that are copied at a time
_SHARES = {  # of δ near a learned prior, where the posterior hardly moves: held-out mostly wins
    "pac-bayes, held-out": Fraction(9, 10),
    "pac-bayes, disintegrated-fixed": Fraction(1, 10),
}
_SHARES_OF_GROUPS = {
    name.replace("held-out", "held-out-mean"): share for name, share in _SHARES.items()
}


def certify_drawn(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    bound: str = "disintegrated",
    networks: int = 1,
    guess: float | None = None,
    **given: Any,
) -> tuple[Certificate, DrawnNetwork]:
    """Draw networks from Q and certify the best of them by a disintegrated bound.

    The risk is the kept network's own error count, so there is no Monte-Carlo term. All drawn
    networks are paid for, so that the one with the best bound may be chosen. They are keyed by the
    hash of posterior and data, so there is no seed to try again with.

    Args:
        bound: disintegrated, or disintegrated-fixed for Catoni's bound at values of C fixed in
            advance, which is tighter near a learned prior.
        networks: how many are drawn.
        guess: the risk expected on the bound set, for disintegrated-fixed, as in `certify`.
        given: delta, priors, repeats, sample, assumptions and provenance, as in `certify`; loss,
            error or top-K for how often the label is not among the K best scores; and groups, (n,),
            if only groups of examples are independent. Each then counts once, with its mean error,
            which is in [0, 1] as the theorems require.
    """
    issuer = _Issuer.of(network, x, y, {"pac-bayes": Fraction(1)}, **given)
    return issuer.drawn(THEOREMS[bound], "pac-bayes", networks, guess)


def certify_fixed(network: Network, x: Tensor, y: Tensor, **given: Any) -> Certificate:
    """Certify the network at the prior's means, which never saw the bound set.

    Its errors there are binomial, so that the exact tail bounds their rate (Clopper & Pearson
    1934), as for any hold-out test. Mean errors of groups are bounded by Hoeffding's inequality
    instead, as kl⁻¹(mean, ln(1/δ)/n).

    Args:
        given: delta, priors, repeats, sample, assumptions and provenance, as in `certify`.
    """
    return _Issuer.of(network, x, y, {"pac-bayes": Fraction(1)}, **given).fixed("pac-bayes")


def certify_network(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    networks: int = 1,
    guess: float | None = None,
    **given: Any,
) -> tuple[Certificate, Weights]:
    """Certify the better of two: the network at the prior's means, and one drawn from Q and kept.

    Nine tenths of δ go to the first and one tenth to the second, fixed in advance.

    Returns:
        The certificate with the lower bound, which names its predictor, and that one's weights.

    Args:
        networks, guess, given: as in `certify_drawn`.
    """
    shares = _SHARES if given.get("groups") is None else _SHARES_OF_GROUPS
    issuer = _Issuer.of(network, x, y, shares, **given)
    held_out, disintegrated = shares
    fixed = issuer.fixed(held_out)
    theorem = THEOREMS["disintegrated-fixed"]
    drawn, kept = issuer.drawn(theorem, disintegrated, networks, guess)
    if drawn.bound < fixed.bound:
        return drawn, kept.weights
    return fixed, prior_weights(issuer.exact)


@dataclass(frozen=True)
class _Issuer:
    """A checked network with its bound set, and a ledger to spend."""

    exact: Network  # a plain copy in float64
    x: Tensor
    y: Tensor
    ledger: Ledger
    shown: Mapping[str, Any]  # assumptions and provenance
    groups: Tensor | None = None  # of each example, if groups are what is independent
    labels: int = 1  # of an answer, which errs if the right one is not among them

    @classmethod
    def of(
        cls,
        network: Network,
        x: Tensor,
        y: Tensor,
        shares: Mapping[str, Fraction],
        *,
        delta: float = 0.05,
        priors: int = 1,
        repeats: bool = False,
        sample: tuple[Tensor, Tensor] | None = None,
        assumptions: Assumptions | None = None,
        provenance: Mapping[str, Any] | None = None,
        groups: Tensor | None = None,
        loss: str = "error",
    ) -> _Issuer:
        exact = checked_copy(network, x, y, repeats=repeats, sample=sample)
        if not isinstance(exact.body, Dense | Deterministic | Evaluated):
            raise ValueError(
                "only a dense network, a last layer on a fixed body, or a network made by "
                f"stochastic() can be drawn and kept; got a body {type(exact.body).__name__}"
            )
        ledger = for_seed(delta, exact.prior_seed, lambda own: Ledger.shared(own, shares, priors))
        assumptions = assumed(exact, assumptions, repeats=repeats)
        counted = loss_of(np.arange(exact.classes), None, loss)
        shown = {"assumptions": assumptions, "provenance": provenance, "noun": counted.noun}
        return cls(exact, *beside(exact, x, y), ledger, shown, groups, counted.labels)

    def fixed(self, part: str) -> Certificate:
        evidence = _evidence(self._risk(prior_weights(self.exact)), {})
        theorem = "held-out" if self.groups is None else "held-out-mean"
        return issue(theorem, evidence, self.ledger, part, **self.shown)

    def _errors(self, weights: Weights) -> int:
        return count_errors(self.exact, weights, self.x, self.y, self.labels)

    def _risk(self, weights: Weights) -> EmpiricalRisk:
        """Return the error on the bound set; n counts groups, and each counts its mean error."""
        if self.groups is None:
            errors, n = self._errors(weights), len(self.x)
            return EmpiricalRisk(errors / n, n, samples=0, draws=None)
        wrong = are_errors(self.exact, weights, self.x, self.y, self.labels)
        means = of_units(wrong.to(CPU).double().numpy(), self.groups.to(CPU).numpy())
        n = len(means)
        mean = min(1.0, math.fsum(means) / n * (1 + _ROUNDING))
        return EmpiricalRisk(mean, n, samples=0, draws=None)

    def drawn(
        self, theorem: Theorem, part: str, networks: int, guess: float | None
    ) -> tuple[Certificate, DrawnNetwork]:
        if networks < 1:
            raise ValueError(f"networks must be at least 1, got {networks}")
        key = draws_key(self.exact, self.x, self.y)
        fixed = {"networks": networks, **guessed(theorem, guess)}
        found = [self._drawn(theorem, key, number, part, fixed) for number in range(networks)]
        return min(found, key=lambda pair: pair[0].bound)

    def _drawn(
        self, theorem: Theorem, key: bytes, number: int, part: str, fixed: Mapping[str, float]
    ) -> tuple[Certificate, DrawnNetwork]:
        drawn = draw_network(self.exact, keyed_generator(key, number))
        certificate = issue(
            theorem.name,
            _evidence(self._risk(drawn.weights), drawn.log_ratio),
            self.ledger,
            part,
            keywords=fixed,
            parameters={"network": number},
            **self.shown,
        )
        return certificate, drawn


def prior_error(
    network: Network, x: Tensor, y: Tensor, index: Tensor | None = None, loss: str = "error"
) -> float:
    """Return the error of the network at the prior's means, on examples outside the bound set.

    On the prior's own part of the data it is a guess of the risk for Catoni's bound at a fixed C.

    Args:
        index: of these examples among x and y, if not all of them are.
        loss: error or top-K.
    """
    exact = plain_copy(network)
    weights = prior_weights(exact)
    best = loss_of(np.arange(exact.classes), None, loss).labels
    index = torch.arange(len(x), device=CPU) if index is None else index
    place, parts = device_of(exact), index.split(_BLOCK)
    errors = (count_errors(exact, weights, x[i].to(place), y[i].to(place), best) for i in parts)
    return sum(errors) / len(index)


def _evidence(risk: EmpiricalRisk, log_ratio: dict[str, float]) -> Evidence:
    """Return the evidence of counted errors, and ln(dQ/dP) by Gaussian if a network was drawn."""
    ratio = math.fsum(log_ratio.values())
    ratio += _ROUNDING * (1 + abs(ratio)) if log_ratio else 0.0
    return Evidence.sampled(risk, risk.mean, kl=ratio, kl_by_part=log_ratio)
