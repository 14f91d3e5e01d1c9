"""Train one run, or one for each prior scale that is tried."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import torch

from pacbayes.data import Dataset, DataSource
from pacbayes.devices import CPU, device_named
from pacbayes.folders.blueprint import Choice
from pacbayes.folders.folder import Run
from pacbayes.folders.preparation import prepare, prior_steps, withdraw
from pacbayes.folders.run import train_run
from pacbayes.folders.writing import writing
from pacbayes.settings import Settings
from pacbayes.training.loop import Progress

__all__ = ["Follow", "best_run", "planned_runs", "scale_text", "train_all"]

Subject = TypeVar("Subject")
Follow = Callable[[Iterator[Progress], Subject], None]


def scale_text(scale: float) -> str:
    """Return a prior scale in the one spelling that folder names and commands have.

    >>> scale_text(0.0300001234), scale_text(1.0)
    ('0.0300001234', '1')
    """
    return repr(float(scale)).removesuffix(".0")


def planned_runs(out: Path, settings: Settings) -> list[tuple[Path, Settings]]:
    """Return folder and settings of every run: `out` itself, or a folder in it for each scale."""
    if not settings.prior_scales:
        return [(out, settings)]
    return [
        (out / f"scale-{scale_text(scale)}", settings.model_copy(update={"prior_scale": scale}))
        for scale in settings.prior_scales
    ]


def _follow(steps: Iterator[Progress], subject: object) -> None:
    deque(steps, maxlen=0)


def train_all(
    out: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None = None,
    *,
    follow_prior: Follow[Settings] = _follow,
    follow: Follow[Run] = _follow,
    device: str | torch.device = CPU,
) -> list[Run]:
    """Prepare and train every planned run; unfinished ones are resumed.

    All priors are fixed before any posterior uses the bound set. A run that diverges before its
    first checkpoint is removed.

    Args:
        network: what `chosen` returns for a network that is not dense.
        follow_prior, follow: advance the steps of a prior's learning and of a run's training, for
            example with a progress bar.
        device: cpu, cuda, mps, or auto for the fastest.
    """
    device, planned, begun = device_named(device), planned_runs(out, settings), []
    with ExitStack() as held:
        for folder, own in planned:
            held.enter_context(writing(folder))
            steps = prior_steps(folder, own, source, data, network, device=device)
            follow_prior(steps, own)
            begun.append(prepare(folder, own, source, data, network, device=device))
        for run in begun:
            try:
                follow(train_run(run, data, device=device), run)
            except ArithmeticError:
                withdraw(run)
                raise
    return begun


def best_run(runs: Sequence[Run]) -> Run:
    """Return the run with the lowest bound."""
    return min(runs, key=lambda run: run.best.bound)
