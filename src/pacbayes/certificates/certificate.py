"""A certificate: with probability 1 − δ a predictor errs at most so often, and the proof of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pacbayes import bounds
from pacbayes.bounds.ledger import Ledger
from pacbayes.bounds.theorems import THEOREMS, CertificateBound, Theorem
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.networks.risk import EmpiricalRisk

__all__ = ["FORMAT", "Certificate", "Evidence", "issue"]

OTHER_CLASSES = "other classes"  # part of the ledger
FORMAT = 4  # of the file; 3 had other draws, and 2 draws by seed


@dataclass(frozen=True)
class Certificate:
    """With probability 1 − δ over the sample and the draws, the predictor errs at most so often.

    Attributes:
        predictor: the predictor that is covered, in words.
        bound: upper bound of its misclassification probability.
        bound_name: the theorem that gave it; with best-of, the one that was best.
        parameters: free parameters of the theorem, as used (λ and α of catoni).
        delta, ledger: total failure probability, and the parts it was spent on.
        risk: mean sampled loss on the bound set; for tandem, that of pairs.
        risk_upper: upper confidence bound of the empirical risk E_Q R_S.
        monte_carlo: the inequality that gave it; None where nothing was sampled.
        samples, draws: T for each example, and independent draws in total (0 and None: exact).
        variance, within: variance of all draws, and of draws of one example.
        quadrature_step, quadrature_error: grid of the integral over more than two classes, and its
            error, which is part of risk_upper.
        n: examples in the bound set, or groups of examples.
        kl, kl_by_part: KL(Q|P), in total and for every Gaussian; ln(dQ/dP) of a drawn network.
        class_name: the class whose examples alone are counted; None for all of them.
        assumptions: what has to be believed, since no file can show it.
        provenance: hashes, seeds and versions.
        remarks: what a reader should know before relying on it, in sentences; they follow from the
            data, so files do not store them.
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
    class_name: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    provenance: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Ledger(self.delta, self.ledger)  # refuses to overspend
        needed = [self.part] if self.draws is None else [self.part, "monte-carlo"]
        if missing := [name for name in needed if name not in self.ledger]:
            raise ValueError(f"the ledger {self.ledger} has no part for {missing[0]!r}")

    @property
    def kind(self) -> Predictor:
        """The predictor that is covered."""
        return self.theorem.predictor

    @property
    def theorem(self) -> Theorem:
        """The theorem's row of the table."""
        return THEOREMS[self.bound_name]

    @property
    def unit(self) -> str:
        """What n counts."""
        return "examples" if self.assumptions.group is None else "groups"

    @property
    def part(self) -> str:
        """The theorem's part of the ledger; with best-of every theorem has its own."""
        return "pac-bayes" if "pac-bayes" in self.ledger else f"pac-bayes, {self.bound_name}"

    @property
    def held_out(self) -> float | None:
        """What Clopper & Pearson 1934 would give for the same error on n unseen examples.

        None if the risk is that of pairs of networks, or of groups.
        """
        if self.theorem.pairs or self.unit == "groups":
            return None
        return bounds.clopper_pearson(self.risk, self.n, self.own_delta)

    @property
    def own_delta(self) -> float:
        """δ without the part of the other classes, if the certificate is about one of several."""
        return self.delta - self.ledger.get(OTHER_CLASSES, 0.0)

    def of_class(self, name: str, delta: float) -> Certificate:
        """Return the certificate as that of one class among several, which share a larger δ."""
        ledger = Ledger(self.delta, self.ledger).within(delta, OTHER_CLASSES)
        return replace(self, class_name=name, delta=delta, ledger=dict(ledger.parts))

    @property
    def catoni(self) -> float:
        """The paper's bound in the paper's way, at the full δ and without a Monte-Carlo term."""
        return bounds.catoni(self.risk, max(0.0, self.kl), self.n, self.own_delta)

    @property
    def contributions(self) -> dict[str, float]:
        """The bound as a sum: the risk, the Monte-Carlo term, log terms, and every Gaussian's KL.

        Its value without a KL comes first, then the share of every Gaussian.
        """
        theorem, upper = self.theorem, min(1.0, self.theorem.factor * self.risk_upper)
        given = {k: self.parameters[o] for o, k in theorem.free.items() if o in self.parameters}
        value = theorem.bound(self.risk_upper, 0.0, self.n, self.ledger[self.part], **given)
        without_kl, kl = min(self.bound, value), math.fsum(self.kl_by_part.values()) or 1.0
        each = {f"KL of {k}": v / kl for k, v in self.kl_by_part.items()}
        risk = min(1.0, theorem.factor * self.risk)
        return {
            "risk": risk,
            "monte-carlo": upper - risk,
            "log terms": without_kl - upper,
            **{name: (self.bound - without_kl) * share for name, share in each.items()},
        }

    @property
    def where(self) -> str:
        """The words that follow `error` where only one class is counted."""
        return "" if self.class_name is None else f" on class {self.class_name}"

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing, because it is one or more."""
        return self.bound >= 1

    def __str__(self) -> str:
        return (
            f"at most {bounds.percent_up(self.bound)} error{self.where} with probability "
            f"{bounds.confidence(self.delta)}, "
            f"by {self.bound_name} on {self.n} {self.unit}: {self.predictor}"
            + "".join(f"\n{remark}" for remark in self.remarks)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain data, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "remarks"}


@dataclass(frozen=True)
class Evidence:
    """The measurements that a bound is computed from.

    Attributes:
        risk: the empirical risk that the theorem takes, as measured.
        upper: its upper confidence bound.
        kl, kl_by_part: complexity, in total (rounded up) and for every Gaussian.
        monte_carlo: the inequality behind `upper`; None where nothing was sampled.
        quadrature: step and error of the integral over classes.
    """

    risk: EmpiricalRisk
    upper: float
    kl: float
    kl_by_part: dict[str, float]
    monte_carlo: MonteCarlo | None = None
    quadrature: tuple[float | None, float] = (None, 0.0)


def issue(
    theorem: Theorem,
    e: Evidence,
    ledger: Ledger,
    part: str,
    *,
    keywords: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float] | None = None,
    assumptions: Assumptions | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Certificate:
    """Put evidence through a theorem: the one place where certificates are made.

    Args:
        part: the part of the ledger that the theorem spends.
        keywords: free parameters of the theorem that were fixed in advance.
        parameters: what the certificate records beside them and the theorem's own choice.
    """
    numbers = (e.upper, e.kl, e.risk.n, ledger[part])
    return Certificate(
        predictor=theorem.predictor.sentence,
        bound=theorem.bound(*numbers, **(keywords or {})),
        bound_name=theorem.name,
        parameters={**theorem.chosen(*numbers), **(keywords or {}), **(parameters or {})},
        delta=ledger.total,
        ledger=dict(ledger.parts),
        risk=e.risk.mean,
        risk_upper=e.upper,
        monte_carlo=e.monte_carlo,
        samples=e.risk.samples,
        draws=e.risk.draws,
        variance=e.risk.variance,
        within=e.risk.within,
        quadrature_step=e.quadrature[0],
        quadrature_error=e.quadrature[1],
        n=e.risk.n,
        kl=e.kl,
        kl_by_part=e.kl_by_part,
        assumptions=assumptions or Assumptions(),
        provenance=dict(provenance or {}),
    )
