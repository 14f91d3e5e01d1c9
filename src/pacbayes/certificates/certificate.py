"""A certificate: with probability 1 − δ a predictor's loss is at most so large, and its file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes import bounds
from pacbayes.bounds.domain import number_up, percent_up, upward
from pacbayes.bounds.ledger import Ledger
from pacbayes.bounds.theorems import THEOREMS, CertificateBound, Theorem
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.files import DamagedFileError, damaged, load_versioned, parsed
from pacbayes.losses.bounded import mean_upper

if TYPE_CHECKING:
    from pacbayes.networks.risk import EmpiricalRisk

__all__ = [
    "FORMAT",
    "Certificate",
    "Evidence",
    "certify_losses",
    "issue",
    "read_certificate",
    "read_classifier",
    "written",
]

Array = NDArray[Any]
OTHER_CLASSES = "other classes"  # part of the ledger
FORMAT = 4  # of a network's file; 3 had other draws, and 2 draws by seed
# fmt: off
_NETWORK = (
    "predictor", "bound", "bound_name", "parameters", "delta", "ledger", "risk", "risk_upper",
    "monte_carlo", "samples", "draws", "variance", "within", "quadrature_step", "quadrature_error",
    "n", "kl", "kl_by_part", "class_name", "assumptions", "provenance",
)
_OPTIONAL = ("class_name", "assumptions", "provenance", "noun")
_CLASSIFIER = (
    "bound", "quantity", "predictor", "theorem", "n", "unit", "losses", "delta", "ledger", "part",
    "kl", "scale", "assumptions", "provenance", "remarks",
)
# fmt: on
_MEANS = {"held-out-mean": "kl-chernoff"}  # name of a theorem, in files of classifiers


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
    def labels(self) -> int:
        """How many labels an answer has, of which one must be right."""
        found = re.fullmatch(r"top-(\d+) error", self.noun)
        return int(found[1]) if found else 1

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
        return written(self)


HeldOutCertificate = Certificate  # its name for models, until version 2.0


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


def certify_losses(
    losses: Array,
    ledger: Ledger,
    part: str,
    *,
    binary: bool = True,
    scale: float = 1.0,
    theorem: str | None = None,
    risk_upper: float | None = None,
    kl: float = 0.0,
    **said: Any,
) -> Certificate:
    """Bound the mean of counted losses, by default those of a predictor that was fixed before.

    If losses are 0 or 1, their number is binomial, and its exact tail gives the bound (Clopper &
    Pearson 1934). Otherwise the bound is kl⁻¹(mean, ln(1/δ)/n) (Hoeffding 1963, Theorem 1).

    Args:
        losses: one for each independent unit, in [0, 1].
        part: the part of the ledger that the bound spends.
        binary: whether losses are 0 or 1 for every possible prediction.
        scale: what a loss of 1 stands for.
        theorem, risk_upper, kl: another theorem, what it takes for the risk, and KL(ρ|π).
        said: predictor, noun, subset, assumptions and provenance, as for `issue`.
    """
    n, total = len(losses), math.fsum(losses)
    amount = float(np.float64(total) * scale)
    evidence = Evidence(
        n=n,
        risk=amount / n if n else math.nan,
        risk_upper=mean_upper(total, n, binary=binary) if risk_upper is None else risk_upper,
        losses=amount,
        scale=scale,
        kl=kl,
    )
    if theorem is not None:
        return issue(theorem, evidence, ledger, part, kl=upward(kl), **said)
    return issue("held-out" if binary else "held-out-mean", evidence, ledger, part, **said)


def written(c: Certificate) -> dict[str, Any]:
    """Return a certificate as its file has it, without the number of the format."""
    network = c.assumptions.covers == "network"
    names = _NETWORK if network else _CLASSIFIER
    plain = {name: deepcopy(getattr(c, name)) for name in names}
    if network:
        plain["assumptions"] = asdict(c.assumptions)
        del plain["assumptions"]["covers"]
        plain |= {} if c.noun == "error" else {"noun": c.noun}
    else:
        plain["assumptions"] = tuple(c.assumptions)
        plain["theorem"] = _MEANS.get(c.theorem, c.theorem)
    return plain


def read_certificate(path: Path) -> Certificate:
    """Return the certificate of a network; raise DamagedFileError if the file has none."""
    record = load_versioned(path, FORMAT, FORMAT)
    if not isinstance(record, dict):
        return parsed(Certificate, record, path)
    record = _fields(record, (*_NETWORK, "noun"), path, optional=_OPTIONAL)
    record["theorem"] = name = record.pop("bound_name")
    parts, only = record["ledger"], "pac-bayes"  # with best-of every theorem has its own part
    record["part"] = only if isinstance(parts, dict) and only in parts else f"{only}, {name}"
    if (of := record.pop("class_name", None)) is not None:
        record["subset"] = f"class {of}"
    if isinstance(assumed := record.get("assumptions"), dict):
        record["assumptions"] = {k: v for k, v in assumed.items() if k != "covers"}
    certificate = parsed(Certificate, record, path)
    if certificate.noun != "error" and certificate.labels == 1:
        raise damaged(path, f"the loss {certificate.noun!r} is unknown")
    versions = certificate.provenance.get("versions", {})
    if not (isinstance(versions, dict) and all(isinstance(v, str) for v in versions.values())):
        raise DamagedFileError(f"{path} is damaged: its versions are not texts; issue it again")
    return certificate


def _fields(
    record: dict[str, Any], names: tuple[str, ...], path: Path, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the fields of a record; raise DamagedFileError unless they are those of the format."""
    found = {name: value for name, value in record.items() if name != "format"}
    if unknown := sorted(found.keys() - set(names)):
        raise damaged(path, f"the field {unknown[0]!r} is unknown")
    for name in names:
        if name not in found and name not in optional:
            raise damaged(path, f"{name}: Field required")
    return found


def read_classifier(
    record: dict[str, Any], assumptions: Assumptions, path: Path, risk_upper: float | None = None
) -> Certificate:
    """Return one of the certificates in the file of a classifier.

    Args:
        assumptions: as run.json has them; `verify` compares the sentences in the file with them.
        risk_upper: what the theorem of a vote takes, which the file does not say.
    """
    record = _fields(record, _CLASSIFIER, path)
    names = {file: ours for ours, file in _MEANS.items()}
    record["theorem"] = names.get(record["theorem"], record["theorem"])
    words, total, n = record.pop("quantity"), record["losses"], record["n"]
    if assumptions.group is not None:
        words = words.removeprefix("mean ").removesuffix(" within a new group")
    record["noun"], _, whom = words.partition(" on ")
    if whom:
        one = whom.startswith("class ")
        record["subset"] = whom if one else whom.removesuffix(" examples")
    if risk_upper is None:
        binary = record["theorem"] == "held-out"
        risk_upper = mean_upper(total / record["scale"], n, binary=binary)
    record |= {"risk": total / n if n else math.nan, "risk_upper": risk_upper}
    del record["unit"]
    return parsed(Certificate, record | {"assumptions": asdict(assumptions)}, path)
