"""Measure the speed of training on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli.options import (
    AsJson,
    set_threads,
)

__all__ = ["bench"]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A few cases, a few turns.")] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="For every contender.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file.  [default: print]")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this machine makes training steps.

    The engine, the torch path, naive torch and the machine's limit, in turns.

    pacbayes bench --quick

    pacbayes bench --threads 2 --out speed.md
    """
    if out is not None and not out.parent.is_dir():  # minutes later would be a pity
        raise ValueError(f"there is no folder {out.parent} for {out.name}")
    set_threads(threads)
    from pacbayes import bench as benchmarks
    from pacbayes.cli import console
    from pacbayes.files import write_atomically

    with console.waiting("measuring; other work on this machine spoils it"):
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
