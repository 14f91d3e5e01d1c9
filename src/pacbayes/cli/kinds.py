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
# Modules of the commands that work on saved classifiers; the others know run folders of networks.
_COMMANDS = ("certify", "verify", "predict", "report", "export")
_FOLDERS = dict.fromkeys(_COMMANDS, "pacbayes.cli.classifiers")
_MODELS = {"train": "pacbayes.cli.models"}


def by_kind(command: Command) -> Command:
    """Return a command that also takes saved classifiers, or trains other models than networks.

    Options that the other kind does not have are refused if they were given.
    """
    name = command.__name__
    if name not in _FOLDERS | _MODELS:
        return command
    parameters = inspect.signature(command).parameters

    @functools.wraps(command)
    def chosen(**values: Any) -> None:
        if name in _MODELS:
            other, whom = values["model"] != "network", f"--model {values['model']}"
            module = _MODELS[name]
        else:
            folder = Path(values[next(iter(parameters))])
            other, whom, module = _is_classifier(folder), f"{folder}, a classifier", _FOLDERS[name]
        if not other:
            command(**values)
            return
        function = getattr(import_module(module), name)
        wanted = inspect.signature(function).parameters
        for key, value in values.items():
            if key not in wanted and value != parameters[key].default:
                raise ValueError(f"{_option(key)} has no effect on {whom}; leave it out")
        function(**{key: values[key] for key in wanted})

    return chosen


def _option(name: str) -> str:
    spelled = {"lam": "lambda", "as_json": "json", "show": "open"}.get(name, name)
    return f"--{spelled.replace('_', '-')}"


def _is_classifier(path: Path) -> bool:
    from pacbayes.certified.saved.kinds import CLASSIFIER, kind_of

    folder = path if path.is_dir() else path.parent
    return (folder / "run.json").is_file() and kind_of(folder) == CLASSIFIER
