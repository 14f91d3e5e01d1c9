"""What a set of examples must be before a number about it can mean anything."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pacbayes.data.tasks import Task

__all__ = ["FittedError", "NoSampleError", "check_bound_set", "check_examples", "check_sample"]

_FEW_REPEATS, _ANYWAY = 0.01, 3  # part and number; a sample drawn with replacement has 0.37

_CLOSE = 1e-6  # what a fitted step's own rounding may leave
_ENOUGH = 30  # examples, of which fewer have round numbers by chance


class NoSampleError(ValueError):
    """Examples that can be seen not to be independent draws, about which no bound holds."""


class FittedError(NoSampleError):
    """Their preprocessing has looked at all of them."""


def check_examples(x: Tensor, y: Tensor, task: Task) -> None:
    """Refuse features that are not finite, and labels that the task does not allow."""
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            f"need one label for each of one or more examples, got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    task.check_labels(y)
    if not torch.isfinite(x).all():
        raise ValueError("every feature must be a finite number")


def check_bound_set(x: Tensor, y: Tensor, task: Task) -> None:
    """Refuse what is no set of examples, each of them once: a loader, wrong labels."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise ValueError(
            "a bound set is two tensors, every example once and as it is; a loader may augment or "
            f"draw with replacement, got {type(x).__name__} and {type(y).__name__}"
        )
    check_examples(x, y, task)


def check_sample(x: Tensor, y: Tensor, *, repeats: bool) -> None:
    """Refuse what can be seen to be no sample: repeated examples, fitted preprocessing.

    Of all training examples, since a copy in the prior's part tells of the bound set.

    Args:
        repeats: the data do repeat themselves, as those of few discrete features may.
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
            f"{again} of {len(rows)} examples occur again: data drawn with replacement or "
            "augmented are no sample; if these are naturally like that, say so: --repeats, or "
            "repeats=True"
        )


def _refuse_fitted(rows: Tensor) -> None:
    """Refuse what only preprocessing fitted to these rows gives them."""
    n, deviations = len(rows), rows.std(0)
    rows, s = rows[:, deviations > 0], deviations[deviations > 0]
    if n < _ENOUGH or not rows.shape[1]:
        return
    centred = rows.mean(0).abs() * math.sqrt(n) < 0.01 * s  # by chance 0.008 a feature
    few = rows[:, :20]  # enough to tell, and quickly
    values = torch.tensor([len(column.unique()) for column in few.T])
    fine = values > n / 2  # discrete features have round numbers by themselves
    scaled = (s[: len(values)] - 1).abs() * math.sqrt(n) < 0.1
    varied = values > 2  # two values may balance by themselves
    together, alone = varied & centred.all(), fine & centred[: len(values)][fine].all()
    for these in (together, alone):
        if these.sum() >= 3 or (these.any() and scaled[these].all()):
            raise FittedError(
                "every feature has mean zero on the training set: preprocessing was fitted to it; "
                "fit it to other data"
            )
    continuous = few[:, fine]
    if continuous.shape[1] >= min(2, few.shape[1]):
        _refuse_fitted_scales(continuous)


def _refuse_fitted_scales(rows: Tensor) -> None:
    """Of continuous features: ranges, magnitudes, deviations or quartiles that are round."""
    low, high = rows.amin(0), rows.amax(0)
    ends = (rows == low).sum(0) + (rows == high).sum(0)
    once = (ends <= 4).sum() >= min(2, rows.shape[1])  # clipping repeats its ends
    quartiles = rows.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=rows.dtype), dim=0)
    for found, what in (
        (once and _close(low, 0) and _close(high, 1), "spans exactly [0, 1]"),
        (once and _close(low, -1) and _close(high, 1), "spans exactly [−1, 1]"),
        (once and _close(rows.abs().amax(0), 1), "has a largest magnitude of exactly 1"),
        (rows.shape[1] > 2 and _close(rows.std(0, correction=0), 1), "has deviation one"),
        (_close(quartiles[1], 0) and _close(quartiles[2] - quartiles[0], 1), "has round quartiles"),
    ):
        if found:
            raise FittedError(
                f"every feature {what} on the training set: its scale was fitted to it; "
                "scale by constants"
            )


def _close(values: Tensor, to: float) -> bool:
    return bool(((values - to).abs() < _CLOSE).all())
