"""Plot a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import RunFolder

__all__ = ["plot"]


def plot(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="Image file to write: .png, .svg or .pdf.")],
) -> None:
    """Plot a run's bound, risk and KL over its epochs.

    pacbayes plot runs/mine --out picture.png

    pacbayes plot runs/mine --out picture.pdf
    """
    from pacbayes import folders
    from pacbayes.report.plots import plot_history

    plot_history(folders.open_run(run), out)
    print(out)
