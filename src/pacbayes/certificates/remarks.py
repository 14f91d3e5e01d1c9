"""Remarks on certificates that are valid but say little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds import percent_up

__all__ = ["CertificateWarning", "above_constant", "largest_class"]

Array = NDArray[Any]


class CertificateWarning(UserWarning):
    """A classifier was fitted, but it has no certificate, or one that says little."""


def largest_class(labels: Any, groups: Any = None) -> tuple[Any, float]:
    """Return the most frequent label, and the error of always answering it.

    Args:
        labels: of the training examples.
        groups: label of each example's group; every group then counts the same.
    """
    classes, index = np.unique(np.asarray(labels), return_inverse=True)
    share = np.bincount(index, _weights(groups, len(index)))
    largest = int(share.argmax())
    return classes[largest], float(1 - share[largest] / share.sum())


def _weights(groups: Any, n: int) -> Array:
    if groups is None:
        return np.ones(n)
    _, index = np.unique(np.asarray(groups), return_inverse=True)
    weights: Array = 1 / np.bincount(index)[index]
    return weights


def above_constant(
    bound: float, labels: Any, groups: Any = None, names: Sequence[str] | None = None
) -> str | None:
    """Return a remark if the bound is above the error of always answering the largest class.

    Such a certificate does not show that anything was learned: with 6 % of positives, a classifier
    that finds none of them errs in 6 % of the cases.

    Args:
        bound: of the error.
        labels, groups: as in `largest_class`.
        names: of the classes, if labels are their indices.
    """
    label, error = largest_class(labels, groups)
    label = label if names is None else names[label]
    if bound <= error:
        return None
    return (
        f"The certificate of {percent_up(bound)} is above the {100 * error:.2f} % error of always "
        f"answering '{label}', the largest class: certify the error on each class (--per-class, "
        "per_class=), weight the classes, or give more data."
    )
