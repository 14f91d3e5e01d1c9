"""Losses of independent units: of examples, or the means of groups of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.certificate import Certificate, Evidence, issue

__all__ = ["certify_losses", "mean_upper", "of_units", "units_of"]

Array = NDArray[Any]
_SUM_ERROR = 2.0**-40  # above the relative rounding error of a mean of up to 10⁹ losses


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


def certify_losses(
    losses: Array, ledger: Ledger, part: str, *, binary: bool, scale: float = 1.0, **said: Any
) -> Certificate:
    """Bound the mean loss of a predictor that was fixed before these losses were seen.

    If losses are 0 or 1, their number is binomial, and its exact tail gives the bound (Clopper &
    Pearson 1934). Otherwise the bound is kl⁻¹(mean, ln(1/δ)/n) (Hoeffding 1963, Theorem 1).

    Args:
        losses: one for each independent unit, in [0, 1].
        part: the part of the ledger that the bound spends.
        binary: whether losses are 0 or 1 for every possible prediction.
        scale: what a loss of 1 stands for.
        said: predictor, noun, subset, assumptions and provenance, as for `issue`.
    """
    n, total = len(losses), math.fsum(losses)
    amount = float(np.float64(total) * scale)
    evidence = Evidence(
        n=n,
        risk=amount / n if n else math.nan,
        risk_upper=mean_upper(total, n, binary=binary),
        losses=amount,
        scale=scale,
    )
    return issue("held-out" if binary else "held-out-mean", evidence, ledger, part, **said)


def mean_upper(total: float, n: int, *, binary: bool) -> float:
    """Return the mean of n losses from their sum, rounded up unless they are counted."""
    if n == 0:
        return 1.0
    return round(total) / n if binary else min(1.0, total / n * (1 + _SUM_ERROR))
