"""Measure how fast this machine trains."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import AsJson, check_folder_of, set_threads

__all__ = ["bench"]


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure fewer cases, fewer times.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="Threads to use.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Markdown file to write.  [default: print]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this machine trains.

    Times one training step with the native engine, with this library's PyTorch code and with plain
    PyTorch, in turns, and compares them with the speed limit of matrix products.

    pacbayes bench --quick

    pacbayes bench --threads 2 --out speed.md
    """
    check_folder_of(out)
    set_threads(threads)
    from pacbayes import bench as benchmarks
    from pacbayes.cli import console
    from pacbayes.files import write_atomically

    with console.waiting("measuring; leave this machine idle for accurate results"):
        found = benchmarks.measure(quick=quick)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    text = benchmarks.report(found)
    if out is None:
        print(text)
    else:
        write_atomically(out, ("# Benchmarks\n\n" + text).encode())
        print(out)
