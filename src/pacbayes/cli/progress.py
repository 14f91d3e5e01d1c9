"""Show progress: a bar on a terminal, plain lines elsewhere, curves for TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from pacbayes.bounds import percent_up
from pacbayes.cli.streams import duration
from pacbayes.extras import require

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from pacbayes.folders.folder import Run
    from pacbayes.settings import Settings
    from pacbayes.training.kernel import HeadProgress
    from pacbayes.training.loop import Evaluation, Progress

__all__ = [
    "check_curves",
    "epochs_done",
    "parts_done",
    "show_prior",
    "show_training",
    "with_curves",
]

_EVENTS = "events.out.tfevents."
_SOON = 10.0  # seconds between lines on the draws of a certificate
_SILENCE = 30.0  # seconds without output after which a line is printed if there is no bar


def show_training(steps: Iterable[Progress], run: Run, engine: str, *, quiet: bool) -> None:
    """Show the progress of a run until its end."""
    console = _console(quiet=quiet)
    console.print(f"{_summary(run)}, {engine}")
    bound = min((e.bound for e in run.history), default=None)
    if (run.folder / "checkpoint.safetensors").exists():
        _show_resumed(run, bound, console)
    _Display(console, run.settings.epochs, _line, bound=bound).follow(steps)


def show_prior(steps: Iterable[Progress], settings: Settings, *, quiet: bool) -> None:
    """Show the progress of learning a prior, if it is learned."""
    title = f"prior with scale {settings.prior_scale:g}, "
    display = _Display(_console(quiet=quiet), settings.prior_epochs, _prior_line, title=title)
    display.follow(steps)


def parts_done() -> Callable[[int, int], None]:
    """Return what says every while how many parts of a certificate are done."""
    started = spoke = time.monotonic()

    def follow(done: int, parts: int) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > _SOON and done < parts:
            left = duration((time.monotonic() - started) * (parts - done) / done)
            _console(quiet=False).print(f"part {done} of {parts}, {left} left")
            spoke = time.monotonic()

    return follow


def epochs_done(title: str, *, quiet: bool) -> Callable[[HeadProgress], None]:
    """Return what prints the epochs of a kernel network, a few of them."""
    console = _console(quiet=quiet)

    def follow(p: HeadProgress) -> None:
        if p.epoch == 1:
            console.print(title)
        if p.epoch & (p.epoch - 1) == 0 or p.epoch % 10 == 0:
            bound = f"bound {percent_up(p.guide)}"
            console.print(f"epoch {p.epoch}  {bound}  risk {100 * p.risk:.2f} %  KL {p.kl:.0f}")

    return follow


def _console(*, quiet: bool) -> Console:
    return Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)


def _summary(run: Run) -> str:
    """Return data, network and settings in a line."""
    s, record = run.settings, run.record
    scales = "learned" if s.learned_scale else "unit"
    return (
        f"{record.data.source.name}: {record.title}, {s.objective}, {scales} scales, "
        f"{s.protocol} protocol, {s.epochs} epochs"
    )


def _show_resumed(run: Run, bound: float | None, console: Console) -> None:
    """Say that the run is resumed, or already trained, with its best bound so far."""
    if run.changed_versions:
        console.print(f"note: resuming with {'; '.join(run.changed_versions)}")
    state = "already trained" if run.trained else "resuming"
    so_far = "" if bound is None else f", best bound so far {percent_up(bound)}"
    console.print(state + so_far)


class _Display:
    """The bar or the lines that show the steps of a loop.

    Args:
        line: the line of an evaluation.
        title: the start of every other line; the learning of a prior has one, and no bound.
        bound: the best bound so far, of a run that is resumed.
    """

    def __init__(
        self,
        console: Console,
        epochs: int,
        line: Callable[[Evaluation], str],
        *,
        title: str = "",
        bound: float | None = None,
    ) -> None:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=None))
        self._bar = Bar(*columns, console=console, expand=True, transient=True)
        self._bar.disable = not console.is_terminal
        self._console, self._epochs, self._line = console, epochs, line
        self._title, self._bound = title, bound
        self._started = self._spoke = time.monotonic()

    def follow(self, steps: Iterable[Progress]) -> None:
        """Show every step as it comes."""
        with self._bar:
            for step in steps:
                if not self._bar.tasks:
                    self._begin(step)
                self._show(step)

    def _begin(self, first: Progress) -> None:
        self._before = first.epoch - 1  # epochs
        self._task = self._bar.add_task(self._title, total=self._epochs)
        if self._title:
            self._console.print(f"{self._title}{self._epochs} epochs")

    def _show(self, step: Progress) -> None:
        done = step.epoch - 1 + step.batch / step.batches
        left = f"{self._time_left(done)} left"
        if step.evaluation is not None:
            self._show_evaluation(step.evaluation, f", {left}" if done < self._epochs else "")
        facts = f"{self._title}epoch {step.epoch} of {self._epochs}, {left}{self._bound_text()}"
        self._bar.update(self._task, completed=done, description=facts)
        if time.monotonic() - self._spoke > _SILENCE and not self._console.is_terminal:
            self._say(facts)

    def _time_left(self, done: float) -> str:
        passed = time.monotonic() - self._started
        return duration(passed * (self._epochs - done) / (done - self._before))

    def _show_evaluation(self, e: Evaluation, left: str) -> None:
        if not self._title:
            self._bound = e.bound
        self._say(self._line(e) + left)

    def _bound_text(self) -> str:
        return "" if self._bound is None else f", bound {percent_up(self._bound)}"

    def _say(self, text: str) -> None:
        self._console.print(text)
        self._spoke = time.monotonic()


def _prior_line(e: Evaluation) -> str:
    return f"prior learned: risk {100 * e.risk:.2f} % on its own examples, {duration(e.seconds)}"


def _line(e: Evaluation) -> str:
    return (
        f"epoch {e.epoch:4d}  risk {100 * e.risk:6.2f} %  KL {e.kl:8.1f}  "
        f"bound {percent_up(e.bound):>8}  {duration(e.seconds)}"
    )


def check_curves(folder: Path) -> None:
    """Refuse a folder that curves cannot be written to, before anything is trained."""
    require("tensorboard", "--tensorboard")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--tensorboard must be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)


def with_curves(steps: Iterator[Progress], run: Run, folder: Path) -> Iterator[Progress]:
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
