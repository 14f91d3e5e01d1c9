"""Issue the certificate of a kernel network: closed forms, so that the theorem has all of δ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from torch import Tensor

from pacbayes.bounds.theorems import BEST_OF, THEOREMS, BoundName, CertificateBound
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, Evidence, issue
from pacbayes.certificates.certify import ROUNDING, guessed, ledger_of, part_of
from pacbayes.data.sample import check_sample
from pacbayes.data.tasks import check_bound_set
from pacbayes.features.kernels import Kernel
from pacbayes.networks import quadrature
from pacbayes.networks.families.process import Directions, Process
from pacbayes.networks.kernel import KernelNetwork, KernelPrior
from pacbayes.networks.risk import EmpiricalRisk

__all__ = ["certify_kernel", "kernel_evidence", "said_of"]


def certify_kernel(
    network: KernelNetwork,
    x: Tensor,
    y: Tensor,
    *,
    delta: float = 0.05,
    bound: CertificateBound = "small-kl",
    priors: int = 1,
    guess: float | None = None,
    repeats: bool = False,
    sample: tuple[Tensor, Tensor] | None = None,
    assumptions: Assumptions | None = None,
    provenance: Mapping[str, Any] | None = None,
    cache: bool | Path = False,
) -> Certificate:
    """Certify the randomised classifier h ~ Q, or its vote with first-order and tandem.

    Nothing is drawn. The risk is computed in float64, and every example is charged what rounding
    may have changed. Directions that are not shown to be a contraction are refused.

    Args:
        x, y: the bound set: all examples that Q was trained on, each once.
        bound: the theorem, to be chosen before its value is seen; best-of pays for choosing later.
        priors: how many choices of features and kernel were tried on the bound set, this one
            included, each of them fixed in advance; all are paid for.
        cache: take the features from a folder, as in `KernelPrior.of`.
        guess, repeats, sample, assumptions, provenance: as for `certify`.
    """
    if bound not in get_args(BoundName):
        raise ValueError(f"bound must be one of {', '.join(get_args(BoundName))}, got {bound!r}")
    check_bound_set(x, y, network.task)
    every, labels = (tensor.detach().cpu().numpy() for tensor in sample or (x, y))
    check_sample(every.reshape(len(every), -1), labels, repeats=repeats)
    best_of = [theorem for theorem in THEOREMS.values() if theorem.in_best_of]
    theorems = best_of if bound == BEST_OF else [THEOREMS[bound]]
    ledger = ledger_of(delta, theorems, priors, None, sampled=False)
    evidence = kernel_evidence(network, x, y, pairs=theorems[0].pairs, cache=cache)
    given = replace(assumptions or Assumptions(), preprocessing=said_of(network))
    given = replace(given, repeats=repeats if assumptions is None else given.repeats)
    issued = [
        issue(
            theorem.name,
            evidence,
            ledger,
            part_of(theorem, theorems),
            keywords=guessed(theorem, guess),
            assumptions=given,
            provenance=provenance,
        )
        for theorem in theorems
    ]
    return min(issued, key=lambda certificate: certificate.bound)


def said_of(network: KernelNetwork) -> str:
    """Return what a certificate says of features and kernel."""
    prior = network.prior
    return (
        f"features {prior.features} and kernel {prior.kernel}, formulas of one example each "
        f"(SHA-256 {prior.sha256})"
    )


def kernel_evidence(
    network: KernelNetwork, x: Tensor, y: Tensor, *, pairs: bool, cache: bool | Path = False
) -> Evidence:
    """Return KL and exact risk, of pairs of heads for tandem, with all roundings charged."""
    _check_own(network)
    if not network.directions_hold:
        raise ValueError(
            "the directions are not shown to be orthonormal under the network's kernel; make them "
            "by train_kernel"
        )
    losses, charge = np.zeros(len(x)), np.zeros(len(x))
    for part, at in network.blocks(x, cache=cache):
        value, charge[part] = network.output(at)
        losses[part] = network.task.loss(value, y[part])
    mean, squares = float(losses.mean()), float(np.square(losses).mean())
    grid = quadrature.accuracy(network.task.outputs)
    slack = float(charge.mean()) + ROUNDING + grid[1]
    risk = EmpiricalRisk(mean, len(x), 0, None, float(losses.var()), tandem=squares)
    chosen = risk.of_pairs() if pairs else risk
    return Evidence.sampled(
        chosen,
        min(1.0, chosen.mean + slack * (2 if pairs else 1)),
        kl=network.process.kl * (1 + ROUNDING),
        kl_by_part={"head": network.process.kl},
        quadrature_step=grid[0],
        quadrature_error=grid[1],
    )


def _check_own(network: KernelNetwork) -> None:
    """Refuse subclasses, whose numbers are their own word, and tensors that do not fit."""
    q = network.process
    parts: list[tuple[object, type]] = [(network, KernelNetwork), (network.prior, KernelPrior)]
    parts += [(q, Process), (q.directions, Directions), (q.directions.kernel, Kernel)]
    for part, own in parts:
        if type(part) is not own:
            raise ValueError(
                f"a certificate needs a {own.__name__} of the library, got {type(part).__name__}; "
                "a subclass's numbers would be its own word"
            )
    d = q.directions
    K, B = d.matrix.shape
    if len(d.landmarks) != B or q.mean.shape[:1] != (K,) or q.log_scale.shape != (K,):
        raise ValueError(
            f"landmarks {d.landmarks.shape}, matrix {d.matrix.shape}, mean {q.mean.shape} and "
            f"log_scale {q.log_scale.shape} do not fit together"
        )
    if not all(np.isfinite(a).all() for a in (d.landmarks, d.matrix, q.mean, q.log_scale)):
        raise ValueError("landmarks, matrix, mean and log_scale must be finite numbers")
