"""Certify a predictor that scikit-learn does not know: a torch module, a service, a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, column_or_1d

from pacbayes.bounds.ledger import Ledger
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, certify_losses
from pacbayes.data.foreign import apart, ask
from pacbayes.data.sample import check_copies
from pacbayes.losses.bounded import loss_of, of_units
from pacbayes.models.asking import Modules, check_batches, check_in_place

__all__ = ["certify_predictor", "labels_of"]

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
    loss: str = "error",
    repeats: bool = False,
) -> Certificate:
    """Certify a predictor on examples that it never saw.

    The predictor, its preprocessing and its features must have been fixed before x and y were seen.
    Certify one predictor: the best of several is not certified by its own certificate.

    Args:
        predict: maps examples like x to one label each; called with copies of all of x, of halves
            in another order, and of single examples, which must all give the same labels. Modules
            of torch in it must be in evaluation mode.
        x: new examples: an array, data frame, tensor or list.
        y: their labels.
        delta: probability with which the certificate may fail.
        groups: label of each example's group, if only groups are independent of each other. Then n
            counts groups, and the certificate is about the mean error within a new group.
        classes, costs: all labels, and the cost of answering the class in column j to an example of
            the class in row i; errors by default.
        loss: error, or top-3 and the like for predictors that return the three likeliest labels of
            each example, (n, 3); `classes` then has all labels, if y has not.
        repeats: declares that examples naturally occur more than once.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).random((500, 1))
    >>> print(certify_predictor(lambda x: x[:, 0] > 0.52, x, x[:, 0] > 0.5))
    at most 2.62 % error with probability 0.95, by held-out on 500 examples: a predictor fixed \
before the bound set was seen
    """
    y = apart(column_or_1d(y))
    if not len(y) or _num_samples(x) != len(y):
        raise ValueError(f"need one label for each example, got {len(y)} for {_num_samples(x)}")
    if costs is not None and classes is None:
        raise ValueError("costs need classes=, the labels of their rows and columns in order")
    counted = loss_of(np.asarray(classes if classes is not None else np.unique(y)), costs, loss)
    members = None if groups is None else apart(column_or_1d(groups))
    predicted = _answers(predict, x, y, members, counted.labels, repeats=repeats)
    group = None if members is None else ""
    return certify_losses(
        of_units(counted(predicted, y), members),
        Ledger.equal(delta, "held-out"),
        "held-out",
        binary=counted.binary and members is None,
        scale=counted.scale,
        predictor="a predictor fixed before the bound set was seen",
        noun=counted.noun,
        assumptions=Assumptions(repeats=repeats, group=group, covers="predictor"),
    )


def labels_of(answers: Any, n: int, k: int = 1) -> Array:
    """Return answers as labels, of which there must be one, or k, for each of n examples."""
    labels = np.asarray(answers)
    if labels.shape != ((n,) if k == 1 else (n, k)):
        number = "one label" if k == 1 else f"{k} labels"
        raise ValueError(
            f"predict must return {number} for each of {n} examples, got shape {labels.shape}"
        )
    return labels


def _answers(
    predict: Callable[[Any], Any], x: Any, y: Array, groups: Array | None, k: int, *, repeats: bool
) -> Array:
    """Return the label of each example; refuse a predictor that does not always give the same."""

    def asked(some: Any) -> Array:
        return np.asarray(ask(predict, some))

    modules = Modules(predict)
    modules.refuse_training()
    predicted = labels_of(asked(x), len(y), k)
    modules.refuse_changes()
    check_copies(x, y, groups, repeats=repeats)
    check_batches(asked, x, predicted)
    check_in_place(predict, x, len(y))
    modules.refuse_changes()
    modules.refuse_training()
    return predicted
