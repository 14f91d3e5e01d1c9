"""Write a run's curves for TensorBoard, an optional extra."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from pacbayes.extras import require
from pacbayes.folders.folder import Run
from pacbayes.training.loop import Evaluation, Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["check", "recorded"]

_EVENTS = "events.out.tfevents."


def check(folder: Path) -> None:
    """Refuse a folder that curves cannot be written to, before anything is trained."""
    require("tensorboard", "--tensorboard")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--tensorboard must be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)


def recorded(steps: Iterator[Progress], run: Run, folder: Path) -> Iterator[Progress]:
    """Pass on a run's progress and write its evaluations to the folder as they come.

    The curves of a resumed run are written again from its history, so that no point is missing or
    duplicate, whenever the run was killed.
    """
    own = f".{run.sha256[:12]}"
    before = list(folder.glob(f"{_EVENTS}*"))
    _check_own(before, own)
    from torch.utils.tensorboard import SummaryWriter

    past = run.history
    started = time.time() - (past[-1].seconds if past else 0.0)
    with SummaryWriter(folder, filename_suffix=own) as writer:
        _write_past(writer, run, past, started)
        for path in before:
            path.unlink()
        for progress in steps:
            if progress.evaluation is not None:
                _write(writer, progress.evaluation, started)
            yield progress


def _check_own(files: list[Path], suffix: str) -> None:
    """Refuse to write beside the curves of another run."""
    for path in files:
        if path.suffix != suffix:
            raise ValueError(
                f"{path.parent} contains the curves of another run ({path.name}); "
                "choose another folder for --tensorboard, or remove them"
            )


def _write_past(
    writer: SummaryWriter, run: Run, past: Sequence[Evaluation], started: float
) -> None:
    """Write settings, data and every evaluation before this start."""
    writer.add_text("settings", _as_code(run.settings.model_dump_json(indent=2)), 0)
    writer.add_text("data", _as_code(run.record.data.model_dump_json(indent=2)), 0)
    for evaluation in past:
        _write(writer, evaluation, started)
    writer.flush()


def _write(writer: SummaryWriter, e: Evaluation, started: float) -> None:
    values = {"bound": e.bound, "risk": e.risk, "KL": e.kl, "lambda": e.lam}
    for name, value in {**values, "learning rate": e.learning_rate}.items():
        writer.add_scalar(name, value, e.epoch, walltime=started + e.seconds)


def _as_code(text: str) -> str:
    """Indent lines, so that Markdown shows them unchanged."""
    return indent(text, "    ")
