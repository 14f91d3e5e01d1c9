"""Draw a training run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.cli.options import (
    RunFolder,
)

if TYPE_CHECKING:
    pass

__all__ = ["plot"]


def plot(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="Image file: .png, .svg or .pdf.")],
) -> None:
    """Draw a run's bound, risk and KL over its epochs.

    pacbayes plot runs/mine --out picture.png

    pacbayes plot runs/mine --out picture.pdf
    """
    from pacbayes import runs
    from pacbayes.report.plots import plot_history

    plot_history(runs.open_run(run), out)
    print(out)
