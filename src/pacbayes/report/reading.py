"""Read the JSON files of a run folder as dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pacbayes.certificates.reading import read_certificate
from pacbayes.training.checkpoints import read_history
from pacbayes.training.loop import Evaluation

__all__ = ["ByEpoch", "read_certificate", "read_history"]


@dataclass(frozen=True)
class ByEpoch:
    """The columns of a history: for each epoch, bound and risk in per cent and KL in nats."""

    epochs: list[int]
    bounds: list[float]
    risks: list[float]
    kls: list[float]

    @classmethod
    def of(cls, history: Sequence[Evaluation]) -> ByEpoch:
        """Return the columns of a list of evaluations."""
        rows = [(e.epoch, 100 * e.bound, 100 * e.risk, e.kl) for e in history]
        return cls(*map(list, zip(*rows, strict=True)))
