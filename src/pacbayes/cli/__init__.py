"""The command line: parse, call, print. Only the commands that need PyTorch import it."""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from typing import Annotated

import typer

import pacbayes
from pacbayes.cli.allow import allow
from pacbayes.cli.bench import bench
from pacbayes.cli.bound import bound
from pacbayes.cli.certify import certify
from pacbayes.cli.compare import compare
from pacbayes.cli.errors import one_line
from pacbayes.cli.export import export
from pacbayes.cli.help import Command, Group
from pacbayes.cli.info import info
from pacbayes.cli.kinds import by_kind
from pacbayes.cli.plan import plan
from pacbayes.cli.plot import plot
from pacbayes.cli.predict import predict
from pacbayes.cli.report import report
from pacbayes.cli.reproduce import reproduce
from pacbayes.cli.streams import discard_output, failing_output, prepare_streams, say
from pacbayes.cli.train import train
from pacbayes.cli.verify import verify
from pacbayes.extras import remedy

__all__ = ["app", "main"]

_COMMANDS = {
    "From data to certified predictions": (train, certify, verify, predict, report, plot, export),
    "Bounds without a run": (bound, compare, plan),
    "The paper and this machine": (reproduce, bench, info, allow),
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pacbayes {pacbayes.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train stochastic neural networks on PAC-Bayes objectives and certify them.

    pacbayes train --dataset digits --widths none --out runs/digits
    pacbayes certify runs/digits
    pacbayes verify runs/digits
    """


def _app(only: str | None = None) -> typer.Typer:
    """Return the command line with all commands, or with one of them."""
    made = typer.Typer(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)
    made.callback()(_options)
    for heading, commands in _COMMANDS.items():
        for command in commands:
            if only in (None, command.__name__):
                made.command(cls=Command, rich_help_panel=heading)(by_kind(command))
    return made


app = _app()
_NAMES = {command.__name__ for commands in _COMMANDS.values() for command in commands}
_INTERRUPTED = 130  # exit code after Ctrl-C
_NOBODY_READS = 141  # exit code after a broken pipe, as in `pacbayes … | head`
_BAD_INPUT = (ValueError, OSError, ArithmeticError, MemoryError, RuntimeError)


def main() -> None:
    """Run the command line; exit with 0, 1 (a check failed), 2 (bad input) or 130 (interrupted)."""
    prepare_streams()
    code = _run(sys.argv[1:] or ["--help"])
    if code == _INTERRUPTED:
        _say_interrupted()
    if code == _NOBODY_READS or failing_output():
        discard_output()
    sys.exit(code)


def _run(arguments: list[str]) -> int | None:
    """Run a command and return its exit code; print an error as one line."""
    try:
        return _call(arguments)
    except BrokenPipeError:
        return _NOBODY_READS
    except ModuleNotFoundError as error:  # as where only what `verify` needs is installed
        if (what := remedy(error)) is None or _wants_traceback(error):
            raise
        say(f"error: this command {what}")
        return 2
    except (typer.TyperException, *_BAD_INPUT) as error:
        if _wants_traceback(error):
            raise
        say(f"error: {one_line(error)}")
        return 2


def _call(arguments: list[str]) -> int | None:
    _refuse_unusable(arguments)
    # Typer reads the signatures of all commands that it has, for longer than a bound takes.
    chosen = _app(arguments[0]) if arguments[0] in _NAMES else app
    try:
        code: int | None = chosen(arguments, prog_name="pacbayes", standalone_mode=False)
    except SystemExit as ended:  # typer's exit code after a broken pipe would mean a failed check
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        raise
    sys.stdout.flush()  # a result that nobody has is an error
    return code


def _refuse_unusable(arguments: list[str]) -> None:
    """Refuse values that are no text, and empty ones, which a shell makes of unset variables."""
    for before, value in pairwise(["", *arguments]):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise ValueError(f"{value!a} is not valid UTF-8; give a name that is")
        if value == "" or (value.startswith("--") and value.endswith("=")):
            option = (value or before).rstrip("=")
            what = option if option.startswith("-") else "an argument"
            raise ValueError(f"{what} is empty; give a value, or leave it out")


def _wants_traceback(error: Exception) -> bool:
    asked = bool(os.environ.get("PACBAYES_TRACEBACK"))
    return asked and not isinstance(error, typer.TyperException)


def _say_interrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would end in a traceback
    resumes = sys.argv[1:2] in (["train"], ["reproduce"])
    hint = "; run the same command again to resume" if resumes else ""
    say(f"\ninterrupted{hint}")
