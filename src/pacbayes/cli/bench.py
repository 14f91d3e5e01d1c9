"""Measure how fast this machine trains, certifies and predicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import AsJson, check_folder_of, set_threads
from pacbayes.cli.streams import remark

__all__ = ["bench"]


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer rows, fewer times.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Measure rows with this in their names; repeatable."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads to use.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Markdown file to write.  [default: print]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this machine trains, certifies and predicts.

    Runs the native engine, this library's PyTorch code, other implementations and plain matrix
    products in turns, and prints ratios of their times. A row says busy, and has no number, if
    other programs took the machine's time.

    pacbayes bench --quick

    pacbayes bench --only certificate --only fit

    pacbayes bench --threads 2 --out speed.md
    """
    check_folder_of(out)
    set_threads(threads)
    from pacbayes import bench as benchmarks
    from pacbayes.cli import console
    from pacbayes.files import write_atomically

    contests = benchmarks.choose(only or (), quick=quick)
    with console.waiting("measuring; leave this machine idle"):
        found = benchmarks.measure(contests, quick=quick)
    if as_json:
        print(json.dumps(asdict(found)))
    elif out is None:
        print(benchmarks.report(found), end="")
    else:
        write_atomically(out, ("# Benchmarks\n\n" + benchmarks.report(found)).encode())
        print(out)
    if found.warning and (as_json or out is not None):
        remark(f"Warning: {found.warning}.")
