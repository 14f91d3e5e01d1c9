"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli import completion

__all__ = [
    "AsJson",
    "Quiet",
    "RunFolder",
    "Threads",
    "check_samples",
    "numbers",
    "set_threads",
    "widths_of",
]

RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder made by train.", autocompletion=completion.runs
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only what came of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Threads of torch.  [default: all cores]")
]


def widths_of(text: str) -> tuple[int, ...]:
    if text == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--widths must look like 100,100,100 or none, got {text!r}") from None


def numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers, as 0,0.5,1, got {text!r}") from None


def check_samples(samples: int) -> None:
    if not 1 <= samples <= 100_000:
        raise ValueError(f"--samples must be at least 1 and at most 100000, got {samples}")


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
