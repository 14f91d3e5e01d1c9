"""Read the JSON files of a run folder as dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pacbayes.certificates.reading import read_certificate
from pacbayes.files import DamagedFileError, load_json, parsed
from pacbayes.training.loop import Evaluation

__all__ = ["ByEpoch", "read_certificate", "read_history"]


def read_history(path: Path) -> tuple[Evaluation, ...]:
    """Return the evaluations of a run; raise DamagedFileError if there are none."""
    record = load_json(path)
    if not isinstance(record, list) or not record:
        raise DamagedFileError(f"{path} has no evaluations; train the run with pacbayes train")
    return tuple(parsed(Evaluation, e, path) for e in record)


@dataclass(frozen=True)
class ByEpoch:
    """The columns of a history: for each epoch, bound and risk in per cent and KL in nats."""

    epochs: list[int]
    bounds: list[float]
    risks: list[float]
    kls: list[float]

    @classmethod
    def of(cls, history: Sequence[Evaluation]) -> ByEpoch:
        rows = [(e.epoch, 100 * e.bound, 100 * e.risk, e.kl) for e in history]
        return cls(*map(list, zip(*rows, strict=True)))
