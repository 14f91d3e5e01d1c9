"""A certificate: a number that is at least the true risk with probability 1 − δ, and its proof."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from torch import Tensor

from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.choices import RANDOMISED, VOTE, BoundName, CertificateBound, MonteCarlo
from pacbayes.data.checks import check_bound_set, check_sample
from pacbayes.networks import quadrature
from pacbayes.networks.gaussian import kl_by_part
from pacbayes.networks.network import Network
from pacbayes.networks.risk import EmpiricalRisk, empirical_risk, exact_risk

__all__ = ["Certificate", "certify", "checked_copy", "contributions"]

_SINGLE: dict[str, Callable[[float, float, int, float], float]] = {
    "small-kl": bounds.small_kl,
    "catoni": bounds.catoni,
    "catoni-c": bounds.catoni_c,
    "mcallester": bounds.mcallester,
    "quadratic": bounds.quadratic,
    "thiemann": bounds.thiemann,
    "unexpected-bernstein": bounds.unexpected_bernstein,
    "first-order": bounds.first_order,
    "tandem": bounds.tandem,
}
_OF_VOTES = {"first-order": 2.0, "tandem": 4.0}  # what Markov's inequality multiplies the risk by
_CHOSEN_FROM = ("small-kl", "unexpected-bernstein")  # best-of: neither is always the better
# Far above what float64 roundings of a forward pass and of sums can amount to, far below a digit
# that is ever printed.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Certificate:
    """With probability 1 − δ over the sample and the draws, the predictor errs at most so often.

    Attributes:
        predictor: which predictor is covered.
        bound: upper bound of its misclassification probability.
        bound_name: the theorem that gave it, which also says whom it covers; of best-of the one
            that was best.
        parameters: what the theorem leaves free, as used (λ and α of catoni).
        delta, ledger: total failure probability, and the parts it was spent on.
        risk: mean sampled loss on the bound set; for tandem that of pairs.
        risk_upper: upper confidence value of the empirical risk E_Q R_S.
        monte_carlo: the inequality that gave it; None where nothing was sampled.
        samples, draws: T for each example, and independent draws in all (0 and None: exact).
        variance, within: of the draws, and of draws of one example.
        quadrature_step, quadrature_error: grid of the integral over more than two classes, and what
            it may err by, which is part of risk_upper.
        n: examples in the bound set.
        kl, kl_by_part: KL(Q|P), in total and for every Gaussian.
        contributions: where the bound comes from, adding up to it: the risk, the Monte-Carlo term,
            the terms that do not depend on Q, and the KL of every Gaussian.
        held_out: what Clopper & Pearson 1934 would give for the same error on n examples that
            training had never seen.
        catoni, catoni_lambda: the paper's bound in the paper's way, at the full δ and without a
            Monte-Carlo term; for comparison only.
        provenance: hashes, seeds and versions.
    """

    predictor: str
    bound: float
    bound_name: CertificateBound
    parameters: dict[str, float]
    delta: float
    ledger: dict[str, float]
    risk: float
    risk_upper: float
    monte_carlo: MonteCarlo | None
    samples: int
    draws: float | None
    variance: float
    within: float | None
    quadrature_step: float | None
    quadrature_error: float
    n: int
    kl: float
    kl_by_part: dict[str, float]
    contributions: dict[str, float]
    held_out: float
    catoni: float
    catoni_lambda: float
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Ledger(self.delta, self.ledger)  # refuses to overspend

    @property
    def vacuous(self) -> bool:
        return self.bound >= 1

    def __str__(self) -> str:
        return (
            f"at most {bounds.percent_up(self.bound)} error with probability {1 - self.delta:g}, "
            f"by {self.bound_name} on {self.n} examples: {self.predictor}"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def certify(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    delta: float = 0.05,
    bound: BoundName = "small-kl",
    monte_carlo: MonteCarlo = "kl-chernoff",
    samples: int | None = 100,
    priors: int = 1,
    repeats: bool = False,
    sample: tuple[Tensor, Tensor] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Certificate:
    """Certify the randomised classifier on its bound set, or with first-order and tandem the vote.

    The risk is sampled in float64 with fresh draws and raised to its upper confidence value, then
    put through the bound; δ is halved between the two (all of it goes to the bound where nothing
    is sampled). Every rounding is upwards.

    Args:
        x, y: the bound set, every example once: (n, d), and labels −1/+1 or, of more than two
            classes, their indices.
        bound: the theorem, to be chosen before its value is seen; best-of pays for choosing later.
        monte_carlo: the inequality for the sampled risk, to be chosen in advance as well.
        samples: T, draws for each example; more make the Monte-Carlo term smaller. None sums
            a small all-sign network exactly, which needs no such term.
        priors: how many priors were tried on the bound set, this one among them, each of them fixed
            in advance; all pay, so that the best may be chosen.
        repeats: says that the data repeat themselves, which else looks like sampling with
            replacement and is refused.
        sample: all examples and labels as they came, the prior's part included, where x has been
            preprocessed without the bound set; these are then looked at for what is no sample.
    """
    _check_choice("bound", bound, get_args(BoundName))
    _check_choice("monte_carlo", monte_carlo, get_args(MonteCarlo))
    exact = checked_copy(network, x, y, repeats=repeats, sample=sample)
    parts = kl_by_part(exact)
    kl = math.fsum(parts.values()) * (1 + _ROUNDING)
    sampled = samples is not None and network.freshness != "exact"
    theorems = _CHOSEN_FROM if bound == "best-of" else (bound,)
    ledger = _ledger(delta, theorems, priors, sampled=sampled)
    wide, H = x.double(), quadrature.step(network.classes) if network.outputs > 1 else None
    gibbs = (
        exact_risk(exact, wide, y) if samples is None else empirical_risk(exact, wide, y, samples)
    )
    risk = gibbs.of_pairs() if bound == "tandem" else gibbs
    error = 0.0 if H is None else quadrature.error(network.classes, H)
    slack = (_ROUNDING + error) * (2 if bound == "tandem" else 1)  # of a product of two
    mean = min(1.0, risk.mean + slack)
    upper = _upper(risk, mean, slack, monte_carlo, ledger["monte-carlo"]) if sampled else mean
    values = {t: _SINGLE[t](upper, kl, risk.n, ledger[_part(t, theorems)]) for t in theorems}
    best: Any = min(values, key=values.__getitem__)
    spent = ledger[_part(best, theorems)]
    lam = bounds.catoni_lambda(gibbs.mean, kl, risk.n, delta)
    free: dict[str, float] = {}
    if best == "catoni":
        free = {"lambda": bounds.catoni_lambda(upper, kl, risk.n, spent), "alpha": bounds.ALPHA}
    return Certificate(
        predictor=VOTE if best in _OF_VOTES else RANDOMISED,
        bound=values[best],
        bound_name=best,
        parameters=free,
        delta=delta,
        ledger=dict(ledger.parts),
        risk=risk.mean,
        risk_upper=upper,
        monte_carlo=monte_carlo if sampled else None,
        samples=risk.samples,
        draws=risk.draws,
        variance=risk.variance,
        within=risk.within,
        quadrature_step=H,
        quadrature_error=error,
        n=risk.n,
        kl=kl,
        kl_by_part=parts,
        contributions=contributions(
            min(1.0, _OF_VOTES.get(best, 1.0) * risk.mean),
            min(1.0, _OF_VOTES.get(best, 1.0) * upper),
            _SINGLE[best](upper, 0.0, risk.n, spent),
            values[best],
            parts,
        ),
        held_out=bounds.clopper_pearson(gibbs.mean, risk.n, delta),
        catoni=bounds.catoni(gibbs.mean, kl, risk.n, delta, lam=lam),
        catoni_lambda=lam,
        provenance=dict(provenance or {}),
    )


def checked_copy(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    repeats: bool,
    sample: tuple[Tensor, Tensor] | None = None,
) -> Network:
    """The network in float64 and evaluation mode, after every refusal there is."""
    check_bound_set(x, y, network.classes)
    check_sample(*(sample or (x, y)), repeats=repeats)
    network.look()
    exact = copy.deepcopy(network).double().eval()
    if any(module.training for module in exact.modules()):
        raise ValueError("a module stays in training mode, in which it does not draw from Q")
    kl_by_part(exact)  # refuses parameters that Q does not cover
    return exact


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _ledger(delta: float, theorems: tuple[str, ...], priors: int, *, sampled: bool) -> Ledger:
    """Half of δ for the sampled risk and half for the theorem, or theorems; all with each prior."""
    if priors < 1:
        raise ValueError(f"priors must be at least 1, got {priors}")
    halves = Ledger.equal(delta, *(["pac-bayes", "monte-carlo"] if sampled else ["pac-bayes"]))
    parts: dict[str, float] = {}
    for half, names in (
        ("pac-bayes", [_part(t, theorems) for t in theorems]),
        ("monte-carlo", ["monte-carlo"]),
    ):
        if half in halves.parts:
            others = [f"other prior {i}, {name}" for i in range(1, priors) for name in names]
            parts |= Ledger.equal(halves[half], *names, *others).parts
    return Ledger(delta, parts)


def _part(theorem: str, theorems: tuple[str, ...]) -> str:
    return "pac-bayes" if len(theorems) == 1 else f"pac-bayes, {theorem}"


def _upper(
    risk: EmpiricalRisk, mean: float, slack: float, inequality: MonteCarlo, delta: float
) -> float:
    """The sampled mean, no draw of which errs by more than `slack`, at its upper confidence."""
    draws = risk.draws or 1.0
    if inequality == "kl-chernoff":
        return bounds.kl_chernoff(mean, draws, delta)
    if risk.within is None:
        raise ValueError(f"{inequality} needs draws of its own for every example, two or more")
    if inequality == "empirical-bernstein":
        variance = risk.variance + 4 * slack
        return bounds.empirical_bernstein(mean, variance, risk.n * risk.samples, delta)
    pairs = risk.n * (risk.samples // 2)
    return bounds.stratified_bernstein(mean, min(0.5, risk.within + 4 * slack), pairs, draws, delta)


def contributions(
    risk: float, upper: float, without: float, bound: float, parts: dict[str, float]
) -> dict[str, float]:
    """The bound as a sum: what it would be without a KL first, then the KL's share by part."""
    without = min(bound, without)
    kl = math.fsum(parts.values()) or 1.0
    shares = {f"KL of {name}": (bound - without) * part / kl for name, part in parts.items()}
    return {"risk": risk, "monte-carlo": upper - risk, "log terms": without - upper, **shares}
