"""Plot the bounds side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["compare"]


def compare(
    out: Annotated[Path, typer.Option(help="Image file to write: .png, .svg or .pdf.")],
    n: Annotated[int, typer.Option(help="Number of examples in the bound set.")] = 60_000,
    delta: Annotated[float, typer.Option(help="Failure probability of the bounds.")] = 0.05,
) -> None:
    """Plot the bounds side by side, over risk and KL.

    pacbayes compare --n 60000 --out bounds.png

    pacbayes compare --n 1000 --delta 0.01 --out bounds.svg
    """
    from pacbayes.report.plots import plot_bounds

    plot_bounds(n, delta, out)
    print(out)
