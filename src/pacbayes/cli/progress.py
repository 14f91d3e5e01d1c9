"""Show progress: a bar on a terminal, plain lines elsewhere, with the same numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from pacbayes.bounds import percent_up
from pacbayes.cli.console import duration

if TYPE_CHECKING:
    from pacbayes.runs.folder import Run
    from pacbayes.settings import Settings
    from pacbayes.training.loop import Evaluation, Progress

__all__ = ["show_prior", "show_training"]

_SILENCE = 30.0  # seconds without output after which a line is printed if there is no bar


def show_training(steps: Iterable[Progress], run: Run, engine: str, *, quiet: bool) -> None:
    """Show the progress of a run until its end."""
    console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    s = run.settings
    scales = "learned" if s.learned_scale else "unit"
    k = len(run.record.data.classes)
    ends = (run.record.data.features, *s.widths, 1 if k == 2 else k)
    shape, units = "-".join(map(str, ends)), s.activation if s.widths else "linear"
    console.print(
        f"{run.record.data.source.name}: {shape} {units}, {s.objective}, {scales} scales, "
        f"{s.protocol} protocol, {s.epochs} epochs, {engine}"
    )
    bound = None
    if (run.folder / "checkpoint.safetensors").exists():
        if run.changed_versions:
            console.print(f"note: resuming with {'; '.join(run.changed_versions)}")
        bound = min((e.bound for e in run.history), default=None)
        so_far = "" if bound is None else f", best bound so far {percent_up(bound)}"
        console.print(("already trained" if run.trained else "resuming") + so_far)
    _follow(steps, s.epochs, "", console, _line, bound)


def show_prior(steps: Iterable[Progress], settings: Settings, *, quiet: bool) -> None:
    """Show the progress of learning a prior, if it is learned."""
    console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
    title = f"prior with scale {settings.prior_scale:g}, "
    _follow(steps, settings.prior_epochs, title, console, _prior_line, None)


def _follow(
    steps: Iterable[Progress],
    epochs: int,
    title: str,
    console: Console,
    line: Callable[[Evaluation], str],
    bound: float | None,
) -> None:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=None))
    bar = Bar(*columns, console=console, expand=True, transient=True)
    bar.disable = not console.is_terminal
    with bar:
        task, started = None, time.monotonic()
        spoke = started
        for step in steps:
            done, now = step.epoch - 1 + step.batch / step.batches, time.monotonic()
            if task is None:
                task, first = bar.add_task(title, total=epochs), step.epoch - 1
                if title:
                    console.print(f"{title}{epochs} epochs")
            left = duration((now - started) * (epochs - done) / (done - first))
            if (e := step.evaluation) is not None:
                bound = e.bound if line is _line else None
                console.print(line(e) + (f", {left} left" if done < epochs else ""))
                spoke = now
            facts = f"{title}epoch {step.epoch} of {epochs}, {left} left"
            facts += "" if bound is None else f", bound {percent_up(bound)}"
            bar.update(task, completed=done, description=facts)
            if now - spoke > _SILENCE and not console.is_terminal:
                console.print(facts)
                spoke = now


def _prior_line(e: Evaluation) -> str:
    return f"prior learned: risk {100 * e.risk:.2f} % on its own examples, {duration(e.seconds)}"


def _line(e: Evaluation) -> str:
    return (
        f"epoch {e.epoch:4d}  risk {100 * e.risk:6.2f} %  KL {e.kl:8.1f}  "
        f"bound {percent_up(e.bound):>8}  {duration(e.seconds)}"
    )
