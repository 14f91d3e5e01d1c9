"""The command line: parses, calls, prints. Torch is imported only by the commands that need it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import pacbayes
from pacbayes.cli.calculating import bench, bound, compare
from pacbayes.cli.certificates import certify, verify
from pacbayes.cli.reproducing import reproduce
from pacbayes.cli.training import train
from pacbayes.cli.using import plot, predict

__all__ = ["app", "main"]

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pacbayes {pacbayes.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train stochastic neural networks on PAC-Bayes objectives and certify them."""


for command in (train, certify, verify, predict, bound, compare, plot, reproduce, bench):
    app.command()(command)

_INTERRUPTED = 130  # what typer makes of Ctrl-C


def main() -> None:
    """Run the command line: exit code 0, 2 for bad input, 130 when interrupted."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        code = _complain(error.format_message().replace("Value error, ", ""))
    except (ValueError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        if os.environ.get("PACBAYES_TRACEBACK"):
            raise
        code = _complain(_one_line(error))
    if code == _INTERRUPTED:
        hint = "; the same command resumes" if sys.argv[1:2] in (["train"], ["reproduce"]) else ""
        print(f"\ninterrupted{hint}", file=sys.stderr)
    sys.exit(code)


def _complain(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _one_line(error: Exception) -> str:
    """What was wrong with which value; pydantic's errors run to paragraphs otherwise."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first = details()[0]
    where = ".".join(map(str, first["loc"])).replace("lam", "lambda").replace("_", "-")
    what = first["msg"].removeprefix("Value error, ")
    return f"--{where}: {what}, got {first['input']!r}" if where else what
