"""A certificate: with probability 1 − δ a predictor's loss is at most so large, and the proof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pacbayes import bounds
from pacbayes.bounds.domain import number_up, percent_up, upward
from pacbayes.bounds.ledger import Ledger
from pacbayes.bounds.theorems import THEOREMS, CertificateBound, Theorem
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.choices import MonteCarlo, Predictor

if TYPE_CHECKING:
    from pacbayes.networks.risk import EmpiricalRisk

__all__ = ["FORMAT", "Certificate", "Evidence", "issue"]

OTHER_CLASSES = "other classes"  # part of the ledger
FORMAT = 4  # of a network's file; 3 had other draws, and 2 draws by seed


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measurements that a bound is computed from.

    Attributes:
        n: independent units of the bound set: examples, or groups of them.
        risk: mean loss on them, as measured; for tandem of a network, that of pairs.
        risk_upper: what the theorem takes, between 0 and 1: the upper confidence bound of the
            empirical risk E_Q R_S, or a mean of counted losses, with its roundings.
        losses: sum of the losses, such as the number of errors, of a predictor of any kind; None
            for a network.
        scale: largest possible loss, 1 for errors.
        monte_carlo: the inequality behind `risk_upper`; None where nothing was sampled.
        samples, draws: T for each example, and independent draws in total (0 and None: exact).
        variance, within: variance of all draws, and of draws of one example.
        quadrature_step, quadrature_error: grid of the integral over more than two classes, and its
            error, which is part of risk_upper.
        kl, kl_by_part: KL(Q|P), in total (rounded up) and for every Gaussian; ln(dQ/dP) of a drawn
            network; 0 for a predictor that was fixed.
    """

    n: int
    risk: float
    risk_upper: float = field(compare=False)  # files of costs have it to the last bit but one
    losses: float | None = None
    scale: float = 1.0
    monte_carlo: MonteCarlo | None = None
    samples: int = 0
    draws: float | None = None
    variance: float = 0.0
    within: float | None = None
    quadrature_step: float | None = None
    quadrature_error: float = 0.0
    kl: float = 0.0
    kl_by_part: dict[str, float] = field(default_factory=dict)

    @classmethod
    def sampled(cls, risk: EmpiricalRisk, upper: float, **more: Any) -> Evidence:
        """Return the evidence of a network's empirical risk, with its upper confidence bound."""
        return cls(
            n=risk.n,
            risk=risk.mean,
            risk_upper=upper,
            samples=risk.samples,
            draws=risk.draws,
            variance=risk.variance,
            within=risk.within,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class Certificate(Evidence):
    """With probability 1 − δ over the bound set and the draws, the loss is at most `bound`.

    The loss is the mean loss of the predictor on new units of the population.

    Attributes:
        predictor: the predictor that is covered, in words.
        bound: upper bound of its mean loss, such as its probability of misclassification.
        theorem: the theorem that gave it; with best-of, the one that was best.
        parameters: free parameters of the theorem, as used (λ and α of catoni).
        delta, ledger: total failure probability, and the parts it was spent on.
        part: the part of the ledger that the theorem spends; the bounds of all parts hold at once.
        noun: what is lost: error, cost, or a share of unanswered examples.
        subset: the examples that count: `class` with its name, `answered`, or None for all.
        assumptions: what has to be believed, since no file can show it.
        provenance: hashes, seeds and versions.
        remarks: what a reader should know before relying on it, in sentences.
    """

    predictor: str
    bound: float
    theorem: CertificateBound
    delta: float
    ledger: dict[str, float]
    part: str
    parameters: dict[str, float] = field(default_factory=dict)
    noun: str = "error"
    subset: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    provenance: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Ledger(self.delta, self.ledger)  # refuses to overspend
        needed = [self.part] if self.draws is None else [self.part, "monte-carlo"]
        if missing := [name for name in needed if name not in self.ledger]:
            raise ValueError(f"the ledger {self.ledger} has no part for {missing[0]!r}")

    @property
    def row(self) -> Theorem:
        """The theorem's row of the table."""
        return THEOREMS[self.theorem]

    @property
    def bound_name(self) -> str:
        """The name of the theorem."""
        return self.theorem

    @property
    def kind(self) -> Predictor:
        """The kind of predictor that is covered."""
        return self.row.predictor

    @property
    def class_name(self) -> str | None:
        """The class whose examples alone are counted; None for all of them."""
        whole = self.subset or ""
        return whole.removeprefix("class ") if whole.startswith("class ") else None

    @property
    def unit(self) -> str:
        """What n counts, in words: examples, those of a subset, or groups."""
        some = self.subset is not None and self.assumptions.group is None
        return self.assumptions.unit + f" ({self.subset})" * some

    @property
    def quantity(self) -> str:
        """What is bounded, in words, such as error on class 3."""
        words = self.noun
        if self.subset is not None:
            words += f" on {self.subset}" + " examples" * (self.class_name is None)
        return words if self.assumptions.group is None else f"mean {words} within a new group"

    @property
    def held_out(self) -> float | None:
        """What Clopper & Pearson 1934 would give for the same error on n unseen examples.

        None if the risk is that of pairs of networks, or of groups.
        """
        if self.row.pairs or self.assumptions.group is not None:
            return None
        return bounds.clopper_pearson(self.risk, self.n, self.own_delta)

    @property
    def own_delta(self) -> float:
        """δ without the part of the other classes, if the certificate is about one of several."""
        return self.delta - self.ledger.get(OTHER_CLASSES, 0.0)

    def of_class(self, name: str, delta: float) -> Certificate:
        """Return the certificate as that of one class among several, which share a larger δ."""
        ledger = Ledger(self.delta, self.ledger).within(delta, OTHER_CLASSES)
        return replace(self, subset=f"class {name}", delta=delta, ledger=dict(ledger.parts))

    @property
    def catoni(self) -> float:
        """The paper's bound in the paper's way, at the full δ and without a Monte-Carlo term."""
        return bounds.catoni(self.risk, max(0.0, self.kl), self.n, self.own_delta)

    @property
    def contributions(self) -> dict[str, float]:
        """The bound as a sum: the risk, the Monte-Carlo term, log terms, and every Gaussian's KL.

        Its value without a KL comes first, then the share of every Gaussian.
        """
        theorem, scale = self.row, self.scale
        upper = scale * min(1.0, theorem.factor * self.risk_upper)
        given = {k: self.parameters[o] for o, k in theorem.free.items() if o in self.parameters}
        value = theorem.bound(self.risk_upper, 0.0, self.n, self.ledger[self.part], **given)
        without_kl, kl = min(self.bound, scale * value), math.fsum(self.kl_by_part.values()) or 1.0
        each = {f"KL of {k}": v / kl for k, v in self.kl_by_part.items()}
        risk = min(scale, theorem.factor * self.risk)
        return {
            "risk": risk,
            "monte-carlo": upper - risk,
            "log terms": without_kl - upper,
            **{name: (self.bound - without_kl) * share for name, share in each.items()},
        }

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing, because it is not below the largest loss."""
        return self.bound >= self.scale

    @property
    def shown(self) -> str:
        """The bound as it is printed, rounded up: an error in per cent, a cost as a number."""
        return percent_up(self.bound) if self.scale == 1 else number_up(self.bound)

    def __str__(self) -> str:
        return (
            f"at most {self.shown} {self.quantity} with probability "
            f"{bounds.confidence(self.delta)}, by {self.theorem} on {self.n} {self.unit}: "
            f"{self.predictor}" + "".join(f"\n{remark}" for remark in self.remarks)
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate as plain data for JSON, as its file has it."""
        from pacbayes.certificates.reading import written

        return written(self)


def issue(
    theorem: str,
    e: Evidence,
    ledger: Ledger,
    part: str,
    *,
    kl: float | None = None,
    predictor: str | None = None,
    noun: str = "error",
    subset: str | None = None,
    keywords: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float] | None = None,
    assumptions: Assumptions | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Certificate:
    """Put evidence through a theorem: the one place where certificates are made.

    Args:
        part: the part of the ledger that the theorem spends.
        kl: what the theorem is given, if the recorded KL is rounded up once more.
        predictor: in words; by default the theorem's own.
        keywords: free parameters of the theorem that were fixed in advance.
        parameters: what the certificate records beside them and the theorem's own choice.
    """
    row, value, chosen = THEOREMS[theorem], 1.0, {}
    if e.n:  # without examples nothing is known
        numbers = (e.risk_upper, e.kl if kl is None else kl, e.n, ledger[part])
        value = row.bound(*numbers, **(keywords or {}))
        chosen = row.chosen(*numbers)
    return Certificate(
        **vars(e),
        predictor=predictor or row.predictor.sentence,
        bound=value if e.scale == 1 else min(e.scale, upward(value * e.scale)),
        theorem=theorem,
        parameters={**chosen, **(keywords or {}), **(parameters or {})},
        delta=ledger.total,
        ledger=dict(ledger.parts),
        part=part,
        noun=noun,
        subset=subset,
        assumptions=assumptions or Assumptions(),
        provenance=dict(provenance or {}),
    )
