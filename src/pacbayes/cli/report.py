"""Show what is in a folder: as a page or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import (
    AnyFolder,
    DataFile,
    TestFile,
    Threads,
    best_of_scales,
    check_folder_of,
    set_threads,
)

__all__ = ["plot", "report"]


def report(
    folder: AnyFolder,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write.  [default: report.html in DIR]")
    ] = None,
    data: DataFile = None,
    test_data: TestFile = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    threads: Threads = None,
) -> None:
    """Write one HTML page about a run, a saved classifier or a sweep.

    Shows the certificate in words and as a picture, candidates, training curves, weights, uncertain
    examples, mistakes, and the commands that reproduce and check them. The page is self-contained.

    pacbayes report runs/mine

    pacbayes report results/paper --out paper.html
    """
    folder = best_of_scales(folder)
    page = folder / "report.html" if out is None else out
    if page.suffix not in (".html", ".htm"):
        raise ValueError(f"--out must be an .html file, got {page.name!r}")
    check_folder_of(out)
    set_threads(threads)
    from pacbayes.cli import console
    from pacbayes.report import report as write

    with console.waiting("verifying the certificates and predicting the test set"):
        write(folder, page, data=data, test_data=test_data)
    print(f"{page}\nNext: open it in a browser, or send it; it is self-contained.")
    if show:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def plot(
    folder: AnyFolder,
    out: Annotated[Path, typer.Option(help="Image file to write: .png, .svg or .pdf.")],
) -> None:
    """Plot a run by epoch, or the bounds of a classifier or sweep.

    Of a network's run: bound, risk and KL over its epochs. Of a classifier: every candidate's
    error with its bound. Of a folder of reproduce: the bound of each column, and the paper's.

    pacbayes plot runs/mine --out picture.png

    pacbayes plot models/mine --out picture.pdf
    """
    from pacbayes.report import plot as draw

    draw(best_of_scales(folder), out)
    print(out)
