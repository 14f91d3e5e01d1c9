"""Checks that examples can be an independent sample, without which no bound holds."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pacbayes.data.tasks import Task

__all__ = ["FittedError", "NoSampleError", "check_bound_set", "check_examples", "check_sample"]

_FEW_REPEATS, _ANYWAY = 0.01, 3  # share and number allowed; sampling with replacement has 0.37
_CLOSE = 1e-6  # rounding error that a fitted step may leave
_ENOUGH = 30  # fewer examples may have a round mean or scale by chance
_LOOKED_AT = 20  # features that are looked at closely: enough to tell, and fast


class NoSampleError(ValueError):
    """Raised when examples are visibly not independent draws, so that no bound holds for them."""


class FittedError(NoSampleError):
    """Raised when preprocessing was visibly fitted to the examples."""


def check_examples(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless features are finite and every example has a label of the task."""
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            "need at least one example, and one label for each; got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    task.check_labels(y)
    if not torch.isfinite(x).all():
        raise ValueError("every feature must be a finite number; got NaN or infinity")


def check_bound_set(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless x and y are tensors of valid examples; a data loader is refused."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise ValueError(
            "the bound set must be two tensors that hold every example once and unchanged (a data "
            "loader may augment or repeat examples), "
            f"got {type(x).__name__} and {type(y).__name__}"
        )
    check_examples(x, y, task)


def check_sample(x: Tensor, y: Tensor, *, repeats: bool) -> None:
    """Raise NoSampleError if examples are repeated, or preprocessing was fitted to them.

    Give all training examples: a copy among the prior's examples reveals the bound set.

    Args:
        repeats: allow duplicates, which are natural in data with few discrete features.
    """
    rows = x.detach().cpu().flatten(1)
    if not repeats:
        _refuse_repeats(rows, y)
    _refuse_fitted(rows.double())


def _refuse_repeats(rows: Tensor, y: Tensor) -> None:
    examples = zip(rows.numpy(), y.tolist(), strict=True)
    again = len(rows) - len({hash((row.tobytes(), label)) for row, label in examples})
    if again > max(_ANYWAY, _FEW_REPEATS * len(rows)):
        raise NoSampleError(
            f"{again} of {len(rows)} examples are duplicates: examples that were augmented or "
            "drawn with replacement are not independent; if your data naturally contain "
            "duplicates, say so with --repeats, or repeats=True"
        )


def _refuse_fitted(rows: Tensor) -> None:
    """Raise FittedError if means or scales are so round that they were fitted to these rows."""
    rows = rows[:, rows.std(0) > 0]
    if len(rows) < _ENOUGH or not rows.shape[1]:
        return
    few = rows[:, :_LOOKED_AT]
    distinct = torch.tensor([len(column.unique()) for column in few.T])
    continuous = distinct > len(rows) / 2  # others may have round means and scales by nature
    _refuse_centred(rows, continuous, distinct > 2)
    if continuous.sum() >= min(2, few.shape[1]):
        _refuse_fitted_scales(few[:, continuous])


def _refuse_centred(rows: Tensor, continuous: Tensor, varied: Tensor) -> None:
    """Raise FittedError if all features, or all continuous ones, have mean zero.

    Args:
        continuous, varied: of the features looked at, those with a different value in most rows,
            and those with more than two values (two values may balance by themselves).
    """
    root, k = math.sqrt(len(rows)), len(continuous)
    deviations = rows.std(0)
    centred = rows.mean(0).abs() * root < 0.01 * deviations  # by chance 0.008 a feature
    scaled = (deviations[:k] - 1).abs() * root < 0.1
    together = varied & centred.all()
    alone = continuous & centred[:k][continuous].all()
    for these in (together, alone):
        if these.sum() >= 3 or (these.any() and scaled[these].all()):
            raise FittedError(
                "every feature has mean zero on the training set, so preprocessing was fitted to "
                "it; fit preprocessing to other data"
            )


def _refuse_fitted_scales(rows: Tensor) -> None:
    """Raise FittedError if the scales of all continuous features, (n, d), are round."""
    if found := _round_range(rows) or _round_spread(rows):
        raise FittedError(
            f"every feature {found} on the training set, so its scale was fitted to it; "
            "scale by constants that you know beforehand"
        )


def _round_range(rows: Tensor) -> str | None:
    low, high = rows.amin(0), rows.amax(0)
    at_ends = (rows == low).sum(0) + (rows == high).sum(0)
    if (at_ends <= 4).sum() < min(2, rows.shape[1]):  # clipping repeats its ends
        return None
    return _round_ends(low, high)


def _round_ends(low: Tensor, high: Tensor) -> str | None:
    if _close(low, 0) and _close(high, 1):
        return "spans exactly [0, 1]"
    if _close(low, -1) and _close(high, 1):
        return "spans exactly [−1, 1]"
    largest = torch.maximum(low.abs(), high.abs())
    return "has a largest magnitude of exactly 1" if _close(largest, 1) else None


def _round_spread(rows: Tensor) -> str | None:
    if rows.shape[1] > 2 and _close(rows.std(0, correction=0), 1):
        return "has standard deviation 1"
    quartiles = rows.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=rows.dtype), dim=0)
    if _close(quartiles[1], 0) and _close(quartiles[2] - quartiles[0], 1):
        return "has median 0 and interquartile range 1"
    return None


def _close(values: Tensor, to: float) -> bool:
    return bool(((values - to).abs() < _CLOSE).all())
