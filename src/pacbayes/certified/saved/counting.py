"""Count losses from labels and predictions in exact fractions, for `verify` alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Count", "Votes", "count", "errors_together"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Votes:
    """What one candidate answered on the bound set.

    Attributes:
        labels, predicted: indices of classes; −1 is an answer that is no class.
        groups: index of each example's group, if groups are the units.
        answers: whether each example is answered.
        costs: of answering the class in column j to an example of the class in row i.
        classes: names of the classes.
    """

    labels: Array
    predicted: Array
    groups: Array | None
    answers: Array | None
    costs: Sequence[Sequence[float]] | None
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """The sum of the units' losses, each between 0 and 1, and what it means.

    Attributes:
        n: number of units.
        scale: the loss that 1 stands for.
        theorem: what bounds the mean of such losses.
    """

    total: Fraction
    n: int
    scale: Fraction
    theorem: Literal["held-out", "kl-chernoff"]


def count(votes: Votes, claim: str) -> Count:
    """Count the losses of one claim: all examples, those of a class, answered or unanswered."""
    if claim == "all" and votes.costs is not None:
        return _costs(votes, votes.costs)
    wrong, everything = votes.predicted != votes.labels, np.ones(len(votes.labels), bool)
    answers = everything if votes.answers is None else votes.answers
    if claim == "unanswered":
        wrong, where = ~answers, everything
    elif claim in ("all", "answered"):
        where = answers if claim == "answered" else everything
    else:
        where = votes.labels == votes.classes.index(claim.removeprefix("class "))
    total, n = _mean_of_groups(wrong[where], _of(votes.groups, where))
    return Count(total, n, Fraction(1), "held-out" if votes.groups is None else "kl-chernoff")


def _costs(votes: Votes, costs: Sequence[Sequence[float]]) -> Count:
    exact = [[Fraction(cost) for cost in row] for row in costs]
    scale = max(map(max, exact))
    total, n = Fraction(0), 0
    for i, row in enumerate(exact):
        for j, cost in enumerate([*row, max(row)]):  # an answer that is no class costs most
            j = -1 if j == len(row) else j
            here = (votes.labels == i) & (votes.predicted == j)
            part, n = _mean_of_groups(here, votes.groups)
            total += part * cost / scale
    binary = votes.groups is None and all(cost in (0, scale) for row in exact for cost in row)
    return Count(total, n, scale, "held-out" if binary else "kl-chernoff")


def _of(groups: Array | None, where: Array) -> Array | None:
    return None if groups is None else groups[where]


def _mean_of_groups(wrong: Array, groups: Array | None) -> tuple[Fraction, int]:
    """Return the sum over units of the share of their examples that are wrong, and their number."""
    if groups is None:
        return Fraction(int(wrong.sum())), len(wrong)
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    found = np.bincount(sizes[index], wrong).astype(int) if len(wrong) else np.zeros(0, int)
    return sum((Fraction(int(c), s) for s, c in enumerate(found) if c), Fraction(0)), len(sizes)


def errors_together(
    wrong: Array, groups: Array | None, rho: Sequence[Fraction], *, tandem: bool
) -> tuple[Fraction, int]:
    """Return the mean error of candidates drawn from ρ, or of two that err together; and n."""
    n = len(wrong[0]) if groups is None else len(np.unique(groups))
    if not tandem:
        sums = (r * _mean_of_groups(w, groups)[0] for r, w in zip(rho, wrong, strict=True))
        return sum(sums, Fraction(0)) / n, n
    pairs = [(i, j) for i in range(len(rho)) for j in range(len(rho)) if rho[i] and rho[j]]
    sums = (rho[i] * rho[j] * _mean_of_groups(wrong[i] & wrong[j], groups)[0] for i, j in pairs)
    return sum(sums, Fraction(0)) / n, n
