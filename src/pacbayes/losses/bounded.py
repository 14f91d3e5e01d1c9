"""Bounded losses: numbers in [0, scale] for answers and labels, and their means over units.

To add a loss of answers, write one instance of `Loss` here, and name it in `loss_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ERROR",
    "LOSSES",
    "UNANSWERED_SHARE",
    "Loss",
    "LossName",
    "OutputLoss",
    "cost_of",
    "likeliest",
    "loss_of",
    "mean_upper",
    "of_units",
    "top",
    "units_of",
]

Array = NDArray[Any]
LossName = Literal["linear", "squared"]
_SUM_ERROR = 2.0**-40  # above the relative rounding error of a mean of up to 10⁹ losses


@dataclass(frozen=True)
class Loss:
    """A loss of answers, divided by its largest value.

    Attributes:
        noun: what a certificate bounds the mean of.
        of: losses in [0, 1] of answers and their labels, one for each example.
        scale: the largest loss.
        binary: whether each loss is 0 or the largest for every possible answer, so that losses can
            be counted.
        labels: how many labels an answer has. Answers are (n,) labels, or (n, labels), the
            likeliest first.
    """

    noun: str
    of: Callable[[Array, Array], Array]
    scale: float = 1.0
    binary: bool = True
    labels: int = 1

    def __call__(self, answers: Array, y: Array) -> Array:
        """Return the loss of each answer divided by the scale, (n,)."""
        return np.asarray(self.of(answers, y), np.float64)


ERROR = Loss("error", lambda answers, y: answers != y)
UNANSWERED_SHARE = Loss("share of unanswered examples", lambda answered, y: ~answered)


def top(k: int) -> Loss:
    """Return the loss that is 1 where the label is not among the k labels of an answer."""
    return Loss(f"top-{k} error", lambda best, y: (best != y[:, None]).all(axis=1), labels=k)


def loss_of(classes: Array, costs: Any = None, name: str = "error") -> Loss:
    """Return the loss that a classifier is certified for, by its name or its costs.

    Args:
        classes: all labels, in the order of the costs.
        costs: as for `cost_of`; None for another loss.
        name: error, or top-K such as top-3.
    """
    if costs is not None:
        if name != "error":
            raise ValueError(f"give either costs or loss, not both; got loss {name!r}")
        return cost_of(classes, costs)
    if name == "error":
        return ERROR
    if not (found := re.fullmatch(r"top-([1-9]\d*)", str(name))):
        raise ValueError(f"loss must be error or top-K, such as top-3, got {name!r}")
    if not 2 <= (k := int(found[1])) < len(classes):
        most = len(classes) - 1
        said = f"2 to {most}" if most > 1 else "for more than two classes; use error"
        raise ValueError(f"the loss top-K of {len(classes)} classes is {said}, got {name!r}")
    return top(k)


def cost_of(classes: Array, costs: Any) -> Loss:
    """Return the loss that looks up the cost of an answer.

    Args:
        classes: all labels, in the order of the costs.
        costs: (k, k), the cost of the answer in column j to an example of the class in row i.
    """
    matrix, k = np.asarray(costs, np.float64), len(classes)
    if matrix.shape != (k, k) or not (np.isfinite(matrix).all() and matrix.min() >= 0):
        raise ValueError(f"costs must be {k} × {k} numbers of at least 0, got {costs!r}")
    if not matrix.max() > 0:
        raise ValueError("costs must not all be 0")
    scale = float(matrix.max())
    table, binary = matrix / scale, bool(np.isin(matrix, (0.0, scale)).all())
    worst = table.max(1)  # of an answer that is no class
    place = {label: i for i, label in enumerate(classes.tolist())}

    def cost(answers: Array, y: Array) -> Array:
        pairs = zip(y.tolist(), answers.tolist(), strict=True)
        if unknown := set(y.tolist()) - place.keys():
            raise ValueError(f"label {min(map(str, unknown))!r} has no row among the costs")
        losses = [
            table[place[label], place[answer]] if answer in place else worst[place[label]]
            for label, answer in pairs
        ]
        return np.array(losses, np.float64)

    return Loss("cost", cost, scale, binary)


@dataclass(frozen=True)
class OutputLoss:
    """A loss in [0, 1] of one output u ∈ [0, 1] and its label y ∈ [0, 1], after scaling both.

    Attributes:
        expected: E ℓ(u, y) from E u, E u² and y, arrays or tensors.
        covers: what a certificate says.
    """

    expected: Callable[[Any, Any, Any], Any]
    covers: str


LOSSES: dict[LossName, OutputLoss] = {
    "linear": OutputLoss(
        lambda u, _, y: y + u - 2 * y * u,
        "mean output of Q by its linear loss, which is also that of fresh weights",
    ),
    "squared": OutputLoss(
        lambda u, square, y: y * y - 2 * y * u + square,
        "fresh weights by their squared loss; that of the mean output of Q is at most the same",
    ),
}


def likeliest(p: Array, classes: Array, k: int) -> Array:
    """Return the k classes with the largest probabilities, (n, k), the first of equals first."""
    best: Array = classes[np.argsort(-p, axis=1, kind="stable")[:, :k]]
    return best


def units_of(groups: Any, n: int) -> tuple[Array, Array]:
    """Return the index of each example's unit, and how many examples every unit has.

    Args:
        groups: label of each example's group; None if each of n examples is a unit.
    """
    if groups is None:
        return np.arange(n), np.ones(n, np.int64)
    _, index = np.unique(np.asarray(groups), return_inverse=True)
    return index, np.bincount(index)


def of_units(losses: Array, groups: Any, where: Array | None = None) -> Array:
    """Return one loss for each independent unit: an example's own, or the mean of a group's.

    Args:
        groups: label of each example's group.
        where: the examples that count; groups without any are left out.
    """
    chosen = np.ones(len(losses), bool) if where is None else where
    if groups is None:
        return losses[chosen]
    index, sizes = units_of(np.asarray(groups)[chosen], len(losses))
    means: Array = np.bincount(index, losses[chosen]) / sizes
    return np.minimum(means, 1.0)


def mean_upper(total: float, n: int, *, binary: bool) -> float:
    """Return the mean of n losses from their sum, rounded up unless they are counted."""
    if n == 0:
        return 1.0
    return round(total) / n if binary else min(1.0, total / n * (1 + _SUM_ERROR))
