"""Commands that take several kinds of folders: the one place that decides which code runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["by_kind"]

Command = Callable[..., None]
# Where the commands are that work on saved classifiers or make them.
_COMMANDS = ("certify", "verify", "predict", "report", "export")
_HOMES = dict.fromkeys(_COMMANDS, "pacbayes.cli.classifiers") | {"train": "pacbayes.cli.models"}


def by_kind(command: Command) -> Command:
    """Return a command that also takes saved classifiers, or trains other models than networks.

    Options that the other kind does not have are refused if they were given.
    """
    home = _HOMES.get(command.__name__)
    if home is None:
        return command
    parameters = inspect.signature(command).parameters

    @functools.wraps(command)
    def chosen(**values: Any) -> None:
        whom = _other_kind(values, next(iter(parameters)))
        if whom is None:
            command(**values)
            return
        function = getattr(import_module(home), command.__name__)
        wanted = inspect.signature(function).parameters
        for key, value in values.items():
            if key not in wanted and value != parameters[key].default:
                raise ValueError(f"{_option(key)} has no effect on {whom}; leave it out")
        function(**{key: values[key] for key in wanted})

    return chosen


def _other_kind(values: dict[str, Any], first: str) -> str | None:
    """Return what the command is to work on, if it is not the run of a network."""
    if "model" in values:
        return None if values["model"] == "network" else f"--model {values['model']}"
    return f"{values[first]}, a classifier" if _is_classifier(Path(values[first])) else None


def _option(name: str) -> str:
    spelled = {"lam": "lambda", "as_json": "json", "show": "open"}.get(name, name)
    return f"--{spelled.replace('_', '-')}"


def _is_classifier(path: Path) -> bool:
    from pacbayes.certified.saved.kinds import CLASSIFIER, kind_of
    from pacbayes.files import recover

    if not path.exists():
        recover(path)
    try:
        return kind_of(path if path.is_dir() else path.parent) == CLASSIFIER
    except ValueError:  # a folder of no kind; the command says what is wrong with it
        return False
