"""A page about a run or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import Threads, set_threads

__all__ = ["report"]


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN|DIR", help="A run folder, or a store of reproduce.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="HTML file.  [default: report.html in the folder]")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    threads: Threads = None,
) -> None:
    """Write one HTML page about a trained run or a sweep.

    The certificate in words and as a picture, training, weights, doubtful examples, mistakes, and
    how to make and check it all again. Nothing is loaded from elsewhere.

    pacbayes report runs/mine

    pacbayes report results/paper --out paper.html
    """
    page = folder / "report.html" if out is None else out
    if page.suffix not in (".html", ".htm"):
        raise ValueError(f"the page must be an .html file, got {page.name!r}")
    if out is not None and not out.parent.is_dir():  # minutes later would be a pity
        raise ValueError(f"there is no folder {out.parent} for {out.name}")
    set_threads(threads)
    from pacbayes.cli import console
    from pacbayes.report import report as write

    with console.waiting("verifying, and voting on the test part"):
        write(folder, page)
    print(f"{page}\nNext: open it in a browser; it can be sent as it is.")
    if show:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
