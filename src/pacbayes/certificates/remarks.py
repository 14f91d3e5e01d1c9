"""Remarks on certificates that are valid but say little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.units import units_of

__all__ = ["CertificateWarning", "above_constant", "largest_class", "remarked"]


class CertificateWarning(UserWarning):
    """A classifier was fitted, but it has no certificate, or one that says little."""


def largest_class(labels: Any, groups: Any = None) -> tuple[Any, float]:
    """Return the most frequent label, and the error of always answering it.

    Args:
        labels: of the training examples.
        groups: label of each example's group; every group then counts the same.
    """
    classes, index = np.unique(np.asarray(labels), return_inverse=True)
    unit, sizes = units_of(groups, len(index))
    share = np.bincount(index, 1 / sizes[unit])
    largest = int(share.argmax())
    return classes[largest], float(1 - share[largest] / share.sum())


def remarked(
    c: Certificate, labels: Any, groups: Any = None, names: Sequence[str] | None = None
) -> Certificate:
    """Return a certificate with what its reader should know; the arguments are `above_constant`'s.

    Costs have no such remark.
    """
    remark = above_constant(c.bound, labels, groups, names) if c.noun == "error" else None
    return replace(c, remarks=() if remark is None else (remark,))


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
