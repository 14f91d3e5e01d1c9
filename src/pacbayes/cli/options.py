"""Options that several commands share, and their parsing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes.choices import Device
from pacbayes.cli import completion

__all__ = [
    "AsJson",
    "DataFile",
    "OnDevice",
    "Quiet",
    "RunFolder",
    "TestFile",
    "Threads",
    "check_folder_of",
    "check_samples",
    "check_scheduler",
    "given",
    "numbers",
    "set_threads",
    "widths_of",
]

RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder written by train.", autocompletion=completion.runs
    ),
]
DataFile = Annotated[
    Path | None,
    typer.Option("--data", help="The run's own data file, if it has moved; checked by its hash."),
]
TestFile = Annotated[
    Path | None, typer.Option("--test-data", help="The run's own test file, if it has moved.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Threads for PyTorch.  [default: all cores]")
]

OnDevice = Annotated[
    Device,
    typer.Option("--device", help="Where PyTorch computes; auto takes a GPU if there is one."),
]


def widths_of(text: str | None) -> tuple[int, ...] | None:
    """Parse the widths of the hidden layers, if any were given."""
    if text is None:
        return None
    if text == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--widths must look like 100,100,100 or be none, got {text!r}") from None


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; None means that one was not."""
    return {name: value for name, value in options.items() if value is not None}


def numbers(name: str, text: str) -> list[float]:
    """Parse numbers separated by commas, the value of the option `name`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers such as 0,0.5,1, got {text!r}") from None


def check_folder_of(out: Path | None) -> None:
    """Refuse an output file whose folder is missing, before minutes of work."""
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"--out {out}: the folder {out.parent} does not exist; create it first")


def check_samples(samples: int) -> None:
    """Raise ValueError if the number of draws is not between 1 and 100000."""
    if not 1 <= samples <= 100_000:
        raise ValueError(f"--samples must be between 1 and 100000, got {samples}")


def check_scheduler(executor: str, scheduler: str | None) -> None:
    """Refuse --executor dask without a scheduler, and a scheduler without it."""
    if (executor == "dask") != bool(scheduler):
        raise ValueError("--executor dask and --scheduler ADDRESS go together")


def set_threads(threads: int | None) -> None:
    """Set the number of torch's threads, if one was given."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
