"""Commands that take several kinds of folders: the one place that decides which code runs."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pacbayes.cli.streams import remark

__all__ = ["by_kind", "is_classifier"]

Command = Callable[..., None]
# Where the commands are that work on saved classifiers or make them.
_COMMANDS = ("certify", "predict", "export")
_HOMES = dict.fromkeys(_COMMANDS, "pacbayes.cli.classifiers")
_TAKE_ALL = ("plot", "report", "verify")  # tell the kinds apart themselves, or take networks


def by_kind(command: Command) -> Command:
    """Return a command that also takes saved classifiers, or trains other models than networks.

    Options that the other kind does not have are refused if they were given. A folder of a run for
    each prior scale stands for the best of them.
    """
    home = _HOMES.get(command.__name__, "")
    if not home and command.__name__ not in _TAKE_ALL:
        return command
    parameters = inspect.signature(command).parameters
    first = next(iter(parameters))

    @functools.wraps(command)
    def chosen(**values: Any) -> None:
        values[first] = _best_of_scales(Path(values[first]))
        whom = _other_kind(values, first) if home else None
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
    return f"{values[first]}, a classifier" if is_classifier(Path(values[first])) else None


def _best_of_scales(folder: Path) -> Path:
    """Return a folder; if it has a run for each prior scale instead, the one that train names.

    Every certificate of such a run pays for all scales, so that the best may be chosen. A folder
    that a kill has left aside comes back.
    """
    from pacbayes.files import recover

    if not folder.exists():
        recover(folder)
    runs = [path.parent for path in sorted(folder.glob("scale-*/run.json"))]
    if not runs or (folder / "run.json").exists():
        return folder
    for run in runs:
        if not (run / "posterior.safetensors").exists():
            raise ValueError(f"{run} is not fully trained; run the same train command to resume it")
    best = min(runs, key=_least_bound)
    remark(f"{folder} has {len(runs)} prior scales; the best of them is {best}")
    return best


def _least_bound(run: Path) -> float:
    path = run / "history.json"
    try:
        return min(float(evaluation["bound"]) for evaluation in json.loads(path.read_bytes()))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}; restore it from a copy") from error


def _option(name: str) -> str:
    spelled = {"as_json": "json", "show": "open"}.get(name, name)
    return f"--{spelled.replace('_', '-')}"


def is_classifier(path: Path) -> bool:
    """Return whether a folder, or that of a file, holds a classifier."""
    from pacbayes.files import CLASSIFIER, kind_of

    try:
        return kind_of(path if path.is_dir() else path.parent) == CLASSIFIER
    except ValueError:  # a folder of no kind; the command says what is wrong with it
        return False
