"""What is claimed of each candidate on the bound set, and how δ is shared among the claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds.ledger import Ledger
from pacbayes.certified.assumptions import SplitAssumptions
from pacbayes.certified.certificate import HeldOutCertificate, certify_losses
from pacbayes.certified.losses import Loss, of_units
from pacbayes.certified.predictor import quantity
from pacbayes.certified.splitting import Split

__all__ = ["ANSWERED", "OVERALL", "UNANSWERED", "BoundSet", "class_claim", "share_out"]

Array = NDArray[Any]
OVERALL, ANSWERED, UNANSWERED = "all", "answered", "unanswered"
_ROUND_DOWN = 1 - 2.0**-50  # parts must not add up to more than δ


def class_claim(label: Any) -> str:
    """Return the name of the claim about one class."""
    return f"class {label}"


def share_out(
    delta: float, names: Sequence[str], shares: Sequence[float], claims: Sequence[str]
) -> Ledger:
    """Share δ among candidates as stated, and each share equally among its claims."""
    several = len(claims) > 1
    if len(names) == len(claims) == 1:
        return Ledger.equal(delta, part_of(names[0], claims[0], several=several))
    parts = {
        part_of(name, claim, several=several): delta * share / len(claims) * _ROUND_DOWN
        for name, share in zip(names, shares, strict=True)
        for claim in claims
    }
    if len(parts) < len(names) * len(claims):
        raise ValueError(f"two classes have the same name in {list(claims)}; rename one")
    return Ledger(delta, parts)


def part_of(name: str, claim: str, *, several: bool) -> str:
    """Return the name of a part of the ledger, different for every candidate and claim.

    If there are several claims, the name is quoted as in JSON. What comes before the closing quote
    is then the candidate and what comes after it the claim, whatever they contain.
    """
    if not several:
        return name
    quoted = json.dumps(name, ensure_ascii=False)
    return quoted if claim == OVERALL else f"{quoted}, {claim}"


@dataclass(frozen=True)
class BoundSet:
    """Labels and groups of the bound set, and what certificates on it have in common.

    Attributes:
        y, groups: label and group of each example.
        loss: what a wrong answer costs.
        ledger: how δ is shared.
        split: where the bound set comes from.
        assumed: what certificates on it assume.
        several: whether the ledger has several claims about each candidate.
    """

    y: Array
    groups: Array | None
    loss: Loss
    ledger: Ledger
    split: Split
    assumed: SplitAssumptions
    several: bool = False

    @property
    def unit(self) -> str:
        """What is counted, in words: examples or groups."""
        return "examples" if self.groups is None else "groups"

    def overall(self, name: str, predicted: Array) -> HeldOutCertificate:
        """Certify the mean loss of a candidate."""
        losses = of_units(self.loss(predicted, self.y), self.groups)
        what = quantity(self.loss.noun, self.groups)
        return self._issue(losses, name, OVERALL, what, self.loss.binary, self.loss.scale)

    def on_class(self, name: str, predicted: Array, label: Any) -> HeldOutCertificate:
        """Certify the error of a candidate on examples of one class."""
        return self._error(name, predicted, class_claim(label), self.y == label, f"class {label}")

    def answered(self, name: str, predicted: Array, answers: Array) -> HeldOutCertificate:
        """Certify the error of a candidate on the examples that it answers."""
        return self._error(name, predicted, ANSWERED, answers, "answered examples")

    def unanswered(self, name: str, answers: Array) -> HeldOutCertificate:
        """Certify the fraction of examples that are left unanswered."""
        losses = of_units(np.asarray(~answers, np.float64), self.groups)
        what = quantity("share of unanswered examples", self.groups)
        return self._issue(losses, name, UNANSWERED, what)

    def _error(
        self, name: str, predicted: Array, claim: str, where: Array, whom: str
    ) -> HeldOutCertificate:
        losses = of_units(np.asarray(predicted != self.y, np.float64), self.groups, where)
        issued = self._issue(losses, name, claim, quantity(f"error on {whom}", self.groups))
        return issued if self.groups is not None else replace(issued, unit=f"examples ({claim})")

    def _issue(
        self,
        losses: Array,
        name: str,
        claim: str,
        what: str,
        binary: bool = True,
        scale: float = 1.0,
    ) -> HeldOutCertificate:
        return certify_losses(
            losses,
            self.ledger,
            part_of(name, claim, several=self.several),
            binary=binary and self.groups is None,
            scale=scale,
            quantity=what,
            unit=self.unit,
            predictor=f"{name}, fitted to {len(self.split.own)} other examples",
            assumptions=tuple(self.assumed.sentences()),
            provenance=self.provenance,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """The seed of the split, and the hash of the bound set."""
        return {"seed": self.split.seed, "bound_set_sha256": self.split.sha256}
