"""Certify a predictor that scikit-learn does not know: a torch module, a service, a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, column_or_1d

from pacbayes.bounds.ledger import Ledger
from pacbayes.certified.assumptions import predictor_assumptions
from pacbayes.certified.certificate import HeldOutCertificate, certify_losses
from pacbayes.certified.copies import check_copies
from pacbayes.certified.losses import Loss, of_units
from pacbayes.certified.origin import check_batches

__all__ = ["certify_predictor", "labels_of", "quantity"]

Array = NDArray[Any]


def certify_predictor(
    predict: Callable[[Any], Any],
    x: Any,
    y: Any,
    *,
    delta: float = 0.05,
    groups: Any = None,
    classes: Any = None,
    costs: Any = None,
    repeats: bool = False,
) -> HeldOutCertificate:
    """Certify a predictor on examples that it never saw.

    The predictor, its preprocessing and its features must have been fixed before x and y were seen.
    Certify one predictor: the best of several is not certified by its own certificate.

    Args:
        predict: maps examples like x to one label each; called with all of x, and with single ones.
        x: new examples: an array, data frame, tensor or list.
        y: their labels.
        delta: probability with which the certificate may fail.
        groups: label of each example's group, if only groups are independent of each other. Then n
            counts groups, and the certificate is about the mean error within a new group.
        classes, costs: all labels, and the cost of answering the class in column j to an example of
            the class in row i; errors by default.
        repeats: declares that examples naturally occur more than once.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).random((500, 1))
    >>> print(certify_predictor(lambda x: x[:, 0] > 0.52, x, x[:, 0] > 0.5))
    at most 2.62 % error with probability 0.95, by held-out on 500 examples: a predictor fixed \
before the bound set was seen
    """
    y = column_or_1d(y)
    if not len(y) or _num_samples(x) != len(y):
        raise ValueError(f"need one label for each example, got {len(y)} for {_num_samples(x)}")
    if costs is not None and classes is None:
        raise ValueError("costs need classes=, the labels of their rows and columns in order")
    loss = Loss(np.asarray(classes if classes is not None else np.unique(y)), costs)
    predicted = labels_of(predict, x, len(y))
    members = None if groups is None else column_or_1d(groups)
    check_copies(x, y, members, repeats=repeats)
    check_batches(predict, x, predicted)
    unit = "examples" if members is None else "groups"
    return certify_losses(
        of_units(loss(predicted, y), members),
        Ledger.equal(delta, "held-out"),
        "held-out",
        binary=loss.binary and members is None,
        scale=loss.scale,
        quantity=quantity(loss.noun, members),
        unit=unit,
        assumptions=predictor_assumptions(unit, repeats=repeats),
    )


def quantity(noun: str, groups: Array | None) -> str:
    """Return what a certificate bounds, in words."""
    return noun if groups is None else f"mean {noun} within a new group"


def labels_of(predict: Callable[[Any], Any], x: Any, n: int) -> Array:
    """Return a label for each of n examples."""
    labels = np.asarray(predict(x))
    if labels.shape != (n,):
        raise ValueError(
            f"predict must return one label for each of {n} examples, got shape {labels.shape}"
        )
    return labels
