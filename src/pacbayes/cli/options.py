"""Options that several commands share: their parsing, their completion, what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import Parameter, Signature, signature
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pacbayes.choices import Device
from pacbayes.cli.streams import remark

if TYPE_CHECKING:
    from pacbayes.settings import Option

__all__ = [
    "AnyFolder",
    "AsJson",
    "DataFile",
    "OnDevice",
    "Quiet",
    "RunFolder",
    "TestFile",
    "Threads",
    "best_of_scales",
    "check_folder_of",
    "check_samples",
    "check_scheduler",
    "complete_columns",
    "complete_datasets",
    "complete_runs",
    "flag_of",
    "given",
    "is_classifier",
    "is_kernel",
    "numbers",
    "offering",
    "refuse_idle",
    "set_threads",
    "whole_numbers",
]

_DEPTH = 3  # levels of folders that completion searches
_MOST = 2000  # folders to look into, because the shell waits
_Command = TypeVar("_Command", bound=Callable[..., None])


def complete_datasets(incomplete: str) -> list[str]:
    """Return names of data sets; if none fits, the shell itself offers files."""
    from pacbayes.data import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def complete_columns(incomplete: str) -> list[str]:
    """Complete the last of several columns, separated by commas."""
    from pacbayes.paper.columns import COLUMNS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in COLUMNS if name.startswith(last)]


def complete_runs(incomplete: str) -> list[str]:
    """Return run folders whose path begins with the text, nearest first."""
    start = Path(os.path.expanduser(incomplete + "_")).parent
    before, slash, _ = incomplete.rpartition("/")
    runs = (p for p in islice(_folders_below(start), _MOST) if os.path.exists(p / "run.json"))
    found = (f"{before}{slash}{path.relative_to(start)}" for path in runs)
    return sorted(path for path in found if path.startswith(incomplete))


def _folders_below(start: Path) -> Iterator[Path]:
    """Yield folders level by level, without hidden ones."""
    level = [start]
    for _ in range(_DEPTH):
        below: list[Path] = []
        for folder in chain.from_iterable(map(_folders_in, level)):
            below.append(folder)
            yield folder
        level = below


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [Path(e.path) for e in os.scandir(folder) if e.is_dir() and e.name[0] != "."]
    except OSError:  # not allowed to look, or gone
        return []


RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder written by train.", autocompletion=complete_runs
    ),
]
AnyFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|DIR",
        help="A run folder, a saved classifier, or a folder of reproduce.",
        autocompletion=complete_runs,
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


def flag_of(name: str, option: Option | None) -> str:
    """Return the name of an option on the command line, without its opposite or abbreviation."""
    flags = option.flags if option else ()
    return flags[0].partition("/")[0] if flags else f"--{name.replace('_', '-')}"


def offering(options: Mapping[str, tuple[Any, Option]]) -> Callable[[_Command], _Command]:
    """Give a command the options of a table, by name with their types, in place of `**chosen`.

    An option comes after the command's own of the same panel.
    """

    def extended(command: _Command) -> _Command:
        *own, _ = signature(command, eval_str=True).parameters.values()
        own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own]
        every = own + [_parameter(name, *each) for name, each in options.items()]
        panels = [*dict.fromkeys(filter(None, map(_panel, every))), None]
        ordered = sorted(every, key=lambda parameter: panels.index(_panel(parameter)))
        vars(command)["__signature__"] = Signature(ordered)
        return command

    return extended


def _parameter(name: str, kind: Any, option: Option) -> Parameter:
    flags = option.flags or (flag_of(name, option),)
    info = typer.Option(
        *flags, help=option.help, metavar=option.metavar, rich_help_panel=option.panel
    )
    read: Any = (str if option.several else kind) | None
    annotation = Annotated[read, info]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)


def _panel(parameter: Parameter) -> str | None:
    """Return the heading under which the help lists an option."""
    (info,) = getattr(parameter.annotation, "__metadata__", (None,))
    return getattr(info, "rich_help_panel", None)


def refuse_idle(context: typer.Context, whom: str, *, useful: Collection[str]) -> None:
    """Refuse options that were given, other than their defaults, and have no effect on `whom`."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name not in useful and value not in (None, (), [], parameter.default):
            raise ValueError(f"{parameter.opts[0]} has no effect on {whom}; leave it out")


def best_of_scales(folder: Path) -> Path:
    """Return a folder; if it has a run for each prior scale instead, the one that train names."""
    from pacbayes import files

    best = files.best_of_scales(folder)
    if best != folder:
        count = len(list(folder.glob("scale-*/run.json")))
        remark(f"{folder} has {count} prior scales; the best of them is {best}")
    return best


def is_classifier(path: Path) -> bool:
    """Return whether a folder, or that of a file, holds a classifier."""
    return _is_kind(path, "classifier")


def is_kernel(path: Path) -> bool:
    """Return whether a folder, or that of a file, holds a kernel network."""
    return _is_kind(path, "kernel")


def _is_kind(path: Path, kind: str) -> bool:
    from pacbayes.files import kind_of

    try:
        return kind_of(path if path.is_dir() else path.parent) == kind
    except ValueError:  # a folder of no kind; the command says what is wrong with it
        return False


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; None means that one was not."""
    return {name: value for name, value in options.items() if value is not None}


def numbers(name: str, text: str) -> list[float]:
    """Parse numbers separated by commas, the value of the option `name`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers such as 0,0.5,1, got {text!r}") from None


def whole_numbers(name: str, text: str, example: str) -> tuple[int, ...]:
    """Parse whole numbers separated by commas, the value of the option `name`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{name} must look like {example}, got {text!r}") from None


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
