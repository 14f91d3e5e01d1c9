"""The command line: parse, call, print. A command is imported when it is called."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer

import pacbayes
from pacbayes.cli.help import Command, Group, one_line
from pacbayes.cli.streams import discard_output, failing_output, prepare_streams, say
from pacbayes.extras import remedy

__all__ = ["main"]

_PANELS = {  # commands and their purposes, so that the list of them imports none
    "From data to certified predictions": {
        "train": "Train a network; the same command again resumes it.",
        "certify": "Issue a trained run's certificate and save it in the run folder.",
        "verify": "Check certificates using only the files beside them.",
        "predict": "Predict labels with a trained run, by any of its predictors.",
        "report": "Write one HTML page about a run, a saved classifier or a sweep.",
        "plot": "Plot a run by epoch, or the bounds of a classifier or sweep.",
        "export": "Write a predictor as a file that runs without this library.",
    },
    "Bounds without a run": {
        "bound": "Compute a bound from its numbers.",
        "compare": "Plot the bounds side by side, over risk and KL.",
        "plan": "Plan how much data a certificate needs.",
    },
    "The paper and this machine": {
        "reproduce": "Make the paper's runs that are missing, then print a table.",
        "bench": "Measure how fast this machine trains, certifies and predicts.",
        "info": "Show versions, the engine, cached data and extras.",
        "allow": "Allow a run's own code to run on this machine.",
    },
}
_COMMANDS = {name: panel for panel, commands in _PANELS.items() for name in commands}
_MODULES = {"plot": "report", "compare": "bound", "allow": "info"}  # others have their own


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


def _imported(name: str) -> Callable[..., None]:
    module = import_module(f"pacbayes.cli.{_MODULES.get(name, name)}")
    command: Callable[..., None] = getattr(module, name)
    return command


def _listed(name: str) -> Callable[..., None]:
    """Return what stands for a command in the list of commands."""

    def command() -> None: ...

    command.__name__, command.__doc__ = name, _PANELS[_COMMANDS[name]][name]
    return command


def _app(*names: str, find: Callable[[str], Callable[..., None]] = _imported) -> typer.Typer:
    """Return the command line with some commands, or with all."""
    made = typer.Typer(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False)
    made.callback()(_options)
    for name in names or _COMMANDS:
        made.command(cls=Command, rich_help_panel=_COMMANDS[name])(find(name))
    return made


def _app_for(first: str) -> typer.Typer:
    """Return the part of the command line that a call needs, by its first argument."""
    if first in _COMMANDS:  # Typer reads the signatures of all commands that it has
        return _app(first)
    return _app() if "_PACBAYES_COMPLETE" in os.environ else _app(find=_listed)


def __getattr__(name: str) -> Any:
    if name == "app":  # for documentation and tests
        return _app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    try:
        run = _app_for(arguments[0])
        code: int | None = run(arguments, prog_name="pacbayes", standalone_mode=False)
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
