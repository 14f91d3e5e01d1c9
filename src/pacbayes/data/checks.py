"""Checks of the tensors that a network is given."""

from __future__ import annotations

import torch
from torch import Tensor

from pacbayes.data.tasks import Task

__all__ = ["all_finite", "check_bound_set", "check_examples"]

_NUMBERS = 2_000_000  # of a block, to keep memory flat


def check_examples(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless features are finite and every example has a label of the task."""
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            "need at least one example, and one label for each; got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    task.check_labels(y)
    if not all_finite(x):
        raise ValueError("every feature must be a finite number; got NaN or infinity")


def all_finite(x: Tensor) -> bool:
    """Return whether every number is finite, in blocks: torch's own check holds two copies."""
    rows = max(1, _NUMBERS * len(x) // max(1, x.numel())) if x.dim() else 1
    parts = x.split(rows) if x.dim() else (x,)
    return all(bool(torch.isfinite(part).all()) for part in parts)


def check_bound_set(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless x and y are tensors of valid examples; a data loader is refused."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise ValueError(
            "the bound set must be two tensors that hold every example once and unchanged (a data "
            "loader may augment or repeat examples), "
            f"got {type(x).__name__} and {type(y).__name__}"
        )
    check_examples(x, y, task)
