r"""Certify networks with any bounded output activation, for losses that outputs enter convexly.

PAC-Bayes bounds E_Q ℓ(f_θ(x), y), the expected loss of fresh weights. If ℓ is linear in the output,
that is the loss of the mean output F_Q(x) = E_Q f_θ(x); if ℓ is convex, the mean output is no worse
(Jensen). Either way the last layer is integrated: E ℓ(A(z), y), not ℓ(E A(z), y).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, Evidence, issue
from pacbayes.certificates.certify import beside, for_seed, own_code
from pacbayes.data.foreign import ask
from pacbayes.data.sample import check_sample
from pacbayes.data.tasks import all_finite
from pacbayes.losses.bounded import LOSSES, LossName
from pacbayes.networks.outputs import OutputActivation, OutputNetwork
from pacbayes.networks.plain import plain_copy
from pacbayes.networks.posterior import digest_outside, has_state_outside, kl_by_part, outputs_key
from pacbayes.networks.risk import keyed_mean

__all__ = ["LOSSES", "LossName", "certify_outputs"]

_ROUNDING = 1e-9


def expected_losses(
    activation: OutputActivation, loss: LossName, mean: Tensor, deviation: Tensor, y: Tensor
) -> Tensor:
    """Return E ℓ(A(z), y), averaged over the outputs, from moments of z, (…, outputs)."""
    if activation.range is None:
        raise ValueError(
            "a loss in [0, 1] needs a bounded output activation, such as sigmoid, tanh, probit or "
            "erf; got one without a range"
        )
    low, high = activation.range
    first = ask(activation.expectation, mean, deviation)
    u, square = (first - low) / (high - low), first  # a linear loss has no use for the square
    if loss == "squared":
        second = ask(activation.square, mean, deviation)
        square = (second - 2 * low * first + low * low) / (high - low) ** 2
    expected: Tensor = LOSSES[loss].expected(u, square, (y - low) / (high - low))
    return expected.mean(-1)


def certify_outputs(
    network: OutputNetwork,
    x: Tensor,
    y: Tensor,
    *,
    loss: LossName = "linear",
    delta: float = 0.05,
    samples: int = 100,
    prior_seed: int | None = None,
    repeats: bool = False,
) -> Certificate:
    """Bound the expected loss of a network with a bounded output activation, by small-kl.

    Args:
        x, y: the bound set: examples, and a label for every output in the activation's range,
            (n, outputs), for example 0/1 for sigmoid and −1/+1 for tanh.
        loss: |y − u| (linear where labels are at the ends of the range) or (y − u)², both scaled
            to [0, 1] and averaged over the outputs.
        samples: draws of the body for each example.
        prior_seed: seed of a data-free prior, which spends its share of δ; None for a prior that
            was fixed otherwise.
        repeats: declares that examples naturally repeat.
    """
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}")
    if not isinstance(network, OutputNetwork):
        raise ValueError(f"need an OutputNetwork, got {type(network).__name__}")
    exact = plain_copy(network)
    _check(exact, x, y, repeats=repeats)
    exact.seal_prior()
    network._sealed = exact._sealed
    x, y = beside(exact, x, y)
    parts, activation = kl_by_part(exact), exact.activation
    freshness = exact.body.freshness

    def losses(inputs: Tensor, labels: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        mean, deviation = exact.moments_with(inputs.double(), T, generator)
        return expected_losses(activation, loss, mean, deviation, labels.double())

    risk = keyed_mean(losses, x, y, samples, outputs_key(exact, x, y), freshness)
    sampled = freshness != "exact"
    halves = ("pac-bayes", *(["monte-carlo"] if sampled else []))
    ledger = for_seed(delta, prior_seed, lambda own: Ledger.equal(own, *halves))
    width = activation.range[1] - activation.range[0] if activation.range else 1.0
    square = activation.strip.squared.error if activation.strip else 0.0
    slack = _ROUNDING + 4 * (activation.error + square) / min(1.0, width)
    upper = min(1.0, risk.mean + slack)
    if sampled and risk.draws is not None:
        upper = bounds.kl_chernoff(upper, risk.draws, ledger["monte-carlo"])
    evidence = Evidence.sampled(
        risk,
        upper,
        kl=math.fsum(parts.values()) * (1 + _ROUNDING),
        kl_by_part=parts,
        monte_carlo="kl-chernoff" if sampled else None,
        quadrature_error=slack - _ROUNDING,
    )
    state = digest_outside(exact) if has_state_outside(exact) else None
    assumptions = Assumptions(
        repeats=repeats, prior_seed=prior_seed, body_sha256=state, code=own_code(exact.body)
    )
    covers = LOSSES[loss].covers
    said: dict[str, Any] = {"predictor": covers, "assumptions": assumptions}
    return issue("small-kl", evidence, ledger, "pac-bayes", **said)


def _check(network: OutputNetwork, x: Tensor, y: Tensor, *, repeats: bool) -> None:
    outputs = network.layer.bias.mean.shape[0]
    if y.shape != (len(x), outputs) or not len(x):
        raise ValueError(
            f"need a label for each of {outputs} outputs, y of shape ({len(x)}, {outputs}); got "
            f"{tuple(y.shape)}"
        )
    low, high = network.activation.range or (-math.inf, math.inf)
    if not ((y >= low) & (y <= high)).all():
        raise ValueError(f"labels must be between {low:g} and {high:g}, the activation's range")
    if not all_finite(x):
        raise ValueError("every feature must be a finite number; got NaN or infinity")
    _, index = np.unique(y.detach().cpu().numpy(), axis=0, return_inverse=True)
    check_sample(x.detach().cpu().numpy(), index.reshape(-1), repeats=repeats)
