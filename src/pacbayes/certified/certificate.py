"""The certificate of a predictor that was fixed before the bound set was seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes import bounds
from pacbayes.bounds.domain import number_up, percent_up, upward
from pacbayes.bounds.ledger import Ledger

__all__ = ["HeldOutCertificate", "certify_losses"]

Array = NDArray[Any]
_SUM_ERROR = 2.0**-40  # above the relative rounding error of a mean of up to 10⁹ losses


@dataclass(frozen=True)
class HeldOutCertificate:
    """With probability 1 − δ over the bound set, a predictor's mean loss is at most `bound`.

    Attributes:
        bound: upper bound of the mean loss on new examples or groups.
        quantity: what is bounded: error, cost, error on one class and so on.
        predictor: the predictor that is covered, in words.
        theorem: held-out (the binomial tail), kl-chernoff for losses between 0 and 1, or a theorem
            for votes.
        n, unit: size of the bound set, in examples or groups.
        losses: sum of the losses on the bound set; the number of errors, if they are errors.
        delta, ledger: total failure probability, and the parts it was spent on.
        part: the part of the ledger that this bound spends; all parts' bounds hold at once.
        kl: of a vote's weights; 0 for a single predictor.
        scale: largest possible loss, 1 for errors.
        assumptions: what nobody can read off the data, in sentences.
        provenance: seed and hash of the split.
        remarks: what a reader should know before relying on it, in sentences.
    """

    bound: float
    quantity: str
    predictor: str
    theorem: str
    n: int
    unit: str
    losses: float
    delta: float
    ledger: dict[str, float]
    part: str
    kl: float = 0.0
    scale: float = 1.0
    assumptions: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Ledger(self.delta, self.ledger)  # refuses to overspend

    @property
    def risk(self) -> float:
        """The mean loss on the bound set."""
        return self.losses / self.n if self.n else math.nan

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
        """Return the fields as plain data, for JSON."""
        return asdict(self)


def certify_losses(
    losses: Array,
    ledger: Ledger,
    part: str,
    *,
    binary: bool,
    scale: float = 1.0,
    quantity: str = "error",
    unit: str = "examples",
    predictor: str = "a predictor fixed before the bound set was seen",
    assumptions: tuple[str, ...] = (),
    provenance: Mapping[str, Any] | None = None,
) -> HeldOutCertificate:
    """Bound the mean loss of a predictor that was fixed before these losses were seen.

    If losses are 0 or 1, their number is binomial, and its exact tail gives the bound (Clopper &
    Pearson 1934). Otherwise the bound is kl⁻¹(mean, ln(1/δ)/n) (Hoeffding 1963, Theorem 1).

    Args:
        losses: one for each independent unit, in [0, 1].
        part: the part of the ledger that the bound spends.
        binary: whether losses are 0 or 1 for every possible prediction.
        scale: what a loss of 1 stands for.
    """
    n, delta = len(losses), ledger[part]
    total = math.fsum(losses)
    if n == 0:
        value = 1.0
    elif binary:
        value = bounds.clopper_pearson(int(total) / n, n, delta)
    else:
        value = bounds.kl_chernoff(min(1.0, total / n * (1 + _SUM_ERROR)), n, delta)
    return HeldOutCertificate(
        bound=value if scale == 1 else min(scale, upward(value * scale)),
        quantity=quantity,
        predictor=predictor,
        theorem="held-out" if binary else "kl-chernoff",
        n=n,
        unit=unit,
        losses=float(np.float64(total) * scale),
        delta=ledger.total,
        ledger=dict(ledger.parts),
        part=part,
        scale=scale,
        assumptions=assumptions,
        provenance=dict(provenance or {}),
    )
