"""What is claimed of candidates, how the claims share δ, and what they are counted from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, certify_losses
from pacbayes.data.layout import Layout
from pacbayes.data.splitting import Fraction, Split
from pacbayes.losses.bounded import ERROR, UNANSWERED_SHARE, Loss, of_units
from pacbayes.models.candidates import vote_of

__all__ = [
    "ANSWERED",
    "OVERALL",
    "UNANSWERED",
    "VOTES",
    "BoundSet",
    "Counted",
    "Evidence",
    "class_claim",
    "places",
    "share_out",
]

Array = NDArray[Any]
OVERALL, ANSWERED, UNANSWERED = "all", "answered", "unanswered"
VOTES = ("first-order", "tandem")
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
    assumed: Assumptions
    several: bool = False

    def overall(self, name: str, predicted: Array) -> Certificate:
        """Certify the mean loss of a candidate."""
        losses, loss = self.loss(predicted, self.y), self.loss
        said: dict[str, Any] = {"scale": loss.scale, "noun": loss.noun}
        return self._issue(losses, name, OVERALL, binary=loss.binary, **said)

    def on_class(self, name: str, predicted: Array, label: Any) -> Certificate:
        """Certify the error of a candidate on examples of one class."""
        losses, claim = self.error(predicted, self.y), class_claim(label)
        said: dict[str, Any] = {"subset": claim, "noun": self.error.noun}
        return self._issue(losses, name, claim, self.y == label, **said)

    def answered(self, name: str, predicted: Array, answers: Array) -> Certificate:
        """Certify the error of a candidate on the examples that it answers."""
        losses = self.error(predicted, self.y)
        return self._issue(losses, name, ANSWERED, answers, subset=ANSWERED)

    def unanswered(self, name: str, answers: Array) -> Certificate:
        """Certify the fraction of examples that are left unanswered."""
        loss = UNANSWERED_SHARE
        return self._issue(loss(answers, self.y), name, UNANSWERED, noun=loss.noun)

    def votes(
        self, wrong: Array, prior: Sequence[float], weights: Array, labels: Array
    ) -> dict[str, Certificate]:
        """Certify a weighted vote by either theorem; both hold for all weights at once.

        Args:
            wrong, prior: as for `vote_of`.
            labels: what the vote answers.
        """
        losses, issued = of_units(self.error(labels, self.y), self.groups), {}
        for theorem in VOTES:
            vote = vote_of(wrong, self.groups, prior, self.ledger[theorem], theorem)(weights)
            issued[theorem] = certify_losses(
                losses,
                self.ledger,
                theorem,
                theorem=theorem,
                risk_upper=vote.risk,
                kl=vote.kl,
                predictor=f"weighted vote of {len(wrong)} candidates",
                assumptions=self.assumed,
                provenance=self.provenance,
            )
        return issued

    @property
    def error(self) -> Loss:
        """What is counted on a class or on answered examples, which have no costs."""
        return self.loss if self.loss.labels > 1 else ERROR

    def _issue(
        self,
        losses: Array,
        name: str,
        claim: str,
        where: Array | None = None,
        *,
        binary: bool = True,
        **said: Any,
    ) -> Certificate:
        return certify_losses(
            of_units(losses, self.groups, where),
            self.ledger,
            part_of(name, claim, several=self.several),
            binary=binary and self.groups is None,
            predictor=f"{name}, fitted to {len(self.split.own)} other examples",
            assumptions=self.assumed,
            provenance=self.provenance,
            **said,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """The seed of the split, and the hash of the bound set."""
        return {"seed": self.split.seed, "bound_set_sha256": self.split.sha256}


@dataclass(frozen=True, eq=False)
class Counted:
    """Labels, groups and predictions, from which anyone can count the losses again.

    Attributes:
        seed, fraction: from which the split is drawn; `auto` is the default fraction.
        rows: indices of the bound set, sorted.
        labels: index of each example's class, (n,), of all examples.
        groups: index of each example's group, (n,), of all examples; None without groups.
        predictions: the class that each candidate predicts on the bound set, by name, or its
            likeliest classes, (n, k); −1 for an answer that is no class.
        shares: each candidate's share of δ, by name.
        claims: names of the claims about each candidate, which divide its share equally.
        answers: whether each example of the bound set is answered; None without abstention.
        weights: of a vote, one for each candidate; None if there is no vote.
        kept: indices of the examples that were split, sorted, if copies were removed; else None.
        mean: weights of candidates in their mean; 1 where there is none.
        x_sha256: hash of the features of all examples.
        layout: columns of the table, if the features are one.
    """

    seed: int
    fraction: Fraction
    rows: Array
    labels: Array
    groups: Array | None
    predictions: dict[str, Array]
    shares: dict[str, float]
    claims: tuple[str, ...]
    answers: Array | None
    weights: Array | None
    kept: Array | None
    mean: dict[str, float]
    x_sha256: str
    layout: Layout | None

    def tensors(self) -> dict[str, Array]:
        """Return the arrays by name, as a file holds them."""
        optional = {name: getattr(self, name) for name in ("groups", "answers", "weights", "kept")}
        return {
            "rows": self.rows.astype(np.int64),
            "labels": self.labels.astype(np.int64),
            "predictions": np.stack(list(self.predictions.values())).astype(np.int64),
            **{name: array for name, array in optional.items() if array is not None},
        }


Evidence = Counted  # its former name


def places(labels: Array, classes: Array) -> Array:
    """Return the index of each label among the classes, −1 for those that are no class."""
    index = {label: i for i, label in enumerate(classes.tolist())}
    found = np.array([index.get(label, -1) for label in labels.ravel().tolist()], np.int64)
    return found.reshape(labels.shape)
