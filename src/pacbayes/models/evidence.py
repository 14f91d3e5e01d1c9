"""What the certificates of a classifier were counted from, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.layout import Layout
from pacbayes.models.splitting import Fraction
from pacbayes.models.tables import features_sha256

if TYPE_CHECKING:
    from pacbayes.models.contest import Chosen, Contest

__all__ = ["Evidence", "evidence_of", "places"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Labels, groups and predictions, from which anyone can count the losses again.

    Attributes:
        seed, fraction: from which the split is drawn; `auto` is the default fraction.
        rows: indices of the bound set, sorted.
        labels: index of each example's class, (n,), of all examples.
        groups: index of each example's group, (n,), of all examples; None without groups.
        predictions: the class that each candidate predicts on the bound set, by name; −1 for an
            answer that is no class.
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


def places(labels: Array, classes: Array) -> Array:
    """Return the index of each label among the classes, −1 for those that are no class."""
    index = {label: i for i, label in enumerate(classes.tolist())}
    return np.array([index.get(label, -1) for label in labels.tolist()], np.int64)


def evidence_of(chosen: Chosen, contest: Contest) -> Evidence:
    """Return the evidence of a choice among candidates."""
    groups = None if contest.groups is None else np.unique(contest.groups, return_inverse=True)[1]
    weights = list(chosen.weights.values())
    return Evidence(
        seed=contest.split.seed,
        fraction=contest.settings["bound_fraction"],
        rows=contest.split.bound,
        labels=places(contest.y, contest.classes),
        groups=groups,
        predictions={name: places(p, contest.classes) for name, p in chosen.predicted.items()},
        shares=chosen.shares,
        claims=chosen.claims,
        answers=chosen.answers,
        weights=np.array(weights) if weights else None,
        kept=np.union1d(contest.split.own, contest.split.bound)
        if contest.settings["deduplicate"]
        else None,
        mean=dict(contest.weights),
        x_sha256=features_sha256(contest.X),
        layout=Layout.of(contest.X),
    )
