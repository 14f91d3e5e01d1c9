"""Continue a loop from its checkpoint, after all of it was checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes.devices import CPU
from pacbayes.files import DamagedFileError, load_json, parsed
from pacbayes.training.loop import Evaluation, Loop

__all__ = ["read_history", "recorded", "restore"]

_SLOTS = "optimiser."  # there are none before the first step
_DEVICES = "generator."  # a run may continue on another device


@dataclass(frozen=True)
class _Course:
    """How far a loop has come, as its checkpoint records it."""

    epoch: int
    seconds: float
    history: list[Evaluation]


def read_history(path: Path) -> tuple[Evaluation, ...]:
    """Return the evaluations in a history.json; raise DamagedFileError if there are none."""
    record = load_json(path)
    if not isinstance(record, list) or not record:
        raise DamagedFileError(f"{path} has no evaluations; train the run with pacbayes train")
    return tuple(parsed(Evaluation, e, path) for e in record)


def restore(loop: Loop, path: Path, tensors: dict[str, Tensor], record: Any) -> None:
    """Let a new loop continue from a checkpoint.

    Args:
        path: the file that tensors and record were read from.

    Raises:
        DamagedFileError: they are not a state of this loop.
    """
    course = recorded(path, record)
    if not 0 <= course.epoch <= loop.settings.epochs:
        raise DamagedFileError(
            f"{path} is damaged: epoch {course.epoch} of {loop.settings.epochs}; remove it to "
            "start again"
        )
    own = {k: v for k, v in loop.state()[0].items() if not k.startswith(_SLOTS)}
    _check(path, tensors, own | _slots(loop.model, tensors))
    try:
        loop.restore(tensors, record)
        torch.Generator().set_state(tensors["generator"])
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}; remove it to start again") from error
    assert loop.epoch == course.epoch


def recorded(path: Path, record: Any) -> _Course:
    """Return how far the loop of a checkpoint has come."""
    known = _Course.__dataclass_fields__
    own = {k: v for k, v in record.items() if k in known} if isinstance(record, dict) else record
    return parsed(_Course, own, path)


def _slots(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what Adam keeps of each parameter, in the right shapes; of none if it has no steps."""
    found: dict[str, Tensor] = {}
    for i, parameter in enumerate(model.parameters()):
        if any(name.startswith(f"{_SLOTS}{i}.") for name in tensors):
            found |= {f"{_SLOTS}{i}.{key}": parameter for key in ("exp_avg", "exp_avg_sq")}
            found[f"{_SLOTS}{i}.step"] = torch.zeros((), device=CPU)
    return found


def _check(path: Path, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise DamagedFileError unless tensors are named and shaped like the loop's own."""
    wrong = [k for k in tensors.keys() ^ own.keys() if not k.startswith(_DEVICES)]
    wrong += [k for k in own.keys() & tensors.keys() if not _alike(tensors[k], own[k])]
    if wrong:
        raise DamagedFileError(
            f"{path} is not a checkpoint of this network ({min(wrong)}); remove it to start again"
        )


def _alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype
