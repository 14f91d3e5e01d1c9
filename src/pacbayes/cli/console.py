"""Print results, on a terminal or as plain lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pacbayes.bounds import confidence, percent_up
from pacbayes.certificates.explanation import beside, nats, paper_result, percent, sentence, steps
from pacbayes.cli.streams import command

if TYPE_CHECKING:
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.folders.folder import Run
    from pacbayes.folders.kernels import KernelRun
    from pacbayes.folders.prediction import TestErrors
    from pacbayes.training.kernel import HeadProgress

__all__ = [
    "show_assumptions",
    "show_certificate",
    "show_classes",
    "show_kernel_trained",
    "show_trained",
    "waiting",
]

_LOOSE = 0.5  # the error of guessing between two classes


def waiting(message: str) -> AbstractContextManager[object]:
    """Return a context that shows a spinner on a terminal and nothing elsewhere."""
    return Console(stderr=True).status(message)


def show_trained(runs: Sequence[Run], best: Run, took: str) -> None:
    """Print the result of training, its folder and the next command."""
    if advice := _advice(best):
        print(advice)
    e, scale = best.best, best.settings.prior_scale
    of = f" Best of {len(runs)} prior scales: {scale:g}." if len(runs) > 1 else ""
    print(
        f"{took}.{of} Bound {percent_up(e.bound)} (a guide, not yet a certificate), "
        f"risk {percent(e.risk)}, KL {nats(e.kl)}, in epoch {e.epoch} of {best.settings.epochs}."
    )
    for remark_on_data in best.record.data.remarks:
        print(f"Note: {remark_on_data}.")
    print(f"Written to {best.folder}")
    print(f"Next: {command('certify', best.folder)}")


def show_kernel_trained(run: KernelRun, last: HeadProgress | None, took: str) -> None:
    """Print the result of training a kernel network, its folder and the next command."""
    if last is not None:
        print(
            f"{took}. Bound {percent_up(last.guide)} (a guide, not yet a certificate), risk "
            f"{percent(last.risk)}, KL {nats(last.kl)}, after {last.epoch} epochs."
        )
    for remark_on_data in run.record.data.remarks:
        print(f"Note: {remark_on_data}.")
    print(f"Written to {run.folder}")
    print(f"Next: {command('certify', run.folder)}")


def _advice(run: Run) -> str | None:
    """Return what to try next if nothing was learned or the bound is loose."""
    from pacbayes.training.loop import learned_nothing

    if learned_nothing(run.best.risk, len(run.record.data.classes)):
        return _advice_to_learn(run)
    return _advice_to_tighten(run) if run.best.bound > _LOOSE else None


def _advice_to_learn(run: Run) -> str:
    few = f"The network has learned nothing: {run.record.data.n} examples may be too few"
    if run.settings.widths:
        return f"{few}\nfor its size. Try fewer units (--widths 30) or none (--widths none)."
    s = run.settings
    epochs, option = (s.epochs, "epochs") if s.epochs else (s.prior_epochs, "prior-epochs")
    return f"{few},\nor {epochs} epochs too short. Try more epochs (--{option})."


def _advice_to_tighten(run: Run) -> str:
    hidden = run.settings.widths
    option = "epochs" if run.settings.epochs else "prior-epochs"
    change = "fewer weights (--widths none)" if hidden else f"more epochs (--{option})"
    learned = "or more examples."
    if not run.settings.prior_fraction:
        learned = "or a prior that learns from a part of the examples (--prior-fraction 0.5)."
    return f"The bound is loose. To tighten it, try {change}\n{learned}"


def show_certificate(
    certificate: Certificate, errors: TestErrors | None, run: Run | KernelRun
) -> None:
    """Print the certificate in words and numbers, beside the paper's where comparable."""
    console, c = _console(), certificate
    console.print(f"\nCertificate: at most {percent_up(c.bound)} error", style="bold", end="")
    console.print(" (vacuous: it says nothing)" if c.vacuous else "")
    for remark_on_bound in c.remarks:
        console.print(f"NOTE: {remark_on_bound}", style="bold")
    console.print(f"{sentence(c)}\n")
    console.print(_steps(c, run))
    console.print(_comparison(c, errors, run))
    print()
    show_assumptions(c.assumptions.sentences(), run.certificate_path(c.kind))


def show_classes(certificates: Sequence[Certificate], run: Run, names: Sequence[str]) -> None:
    """Print the certificates of all classes, whose names can be printed."""
    first, last = certificates[0], len(certificates) - 1
    print(f"\nCertificate of the {first.predictor}.")
    print(
        f"With probability {confidence(first.delta)} over the choice of the training examples, all "
        f"of these hold. Theorem: {first.bound_name}.\n"
    )
    table = Table("class", "error at most", "measured", "examples", box=None, pad_edge=False)
    for c, name in zip(certificates, names, strict=True):
        table.add_row(name, percent_up(c.bound), percent(c.risk), str(c.n))
    _console().print(table)
    print()
    show_assumptions(first.assumptions.sentences(), f"{run.class_path(first.kind, 0)} to {last}")


def show_assumptions(sentences: Iterable[str], written: object) -> None:
    """Print the assumptions of certificates, and where these are."""
    print("Assumptions that no file can prove:")
    for each in sentences:
        print(f"- {each}")
    print(f"Written to {written}")


def _console() -> Console:
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 100)


def _steps(c: Certificate, run: Run | KernelRun) -> Table:
    table = Table("how it adds up", "points", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for step in steps(c, run.record.layer_names):
        table.add_row(step.label, f"{100 * step.points:.3f}", step.detail)
    return table


def _comparison(c: Certificate, errors: TestErrors | None, run: Run | KernelRun) -> Table:
    headings = ["\nbeside", "\nthis run"]
    if run.record.kind == "network" and paper_result(run.record) is not None:
        headings.append(
            f"\npaper, {run.record.settings.objective} {run.record.settings.activation}"
        )
    table = Table(*headings, box=None, pad_edge=False)
    for row in beside(c, errors, run.record):
        table.add_row(*[row.label, row.ours, row.theirs][: len(headings)])
    return table
