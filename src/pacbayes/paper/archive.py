"""Finished runs as one file for each column: a JSON object on each line, in the order of the keys.

A run in an archive is what the small files of its folder say (`MEMBERS`); weights stay in folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pacbayes.files import damaged, json_in, load_json, parsed, write_atomically
from pacbayes.paper.columns import Configuration
from pacbayes.training.loop import VACUOUS, Evaluation

__all__ = [
    "MEMBERS",
    "Archived",
    "Reset",
    "Summary",
    "diverged",
    "read_archive",
    "read_folder",
    "save_archive",
]

MEMBERS = ("summary.json", "history.json", "resets.json", "error.txt", "configuration.json")
Runs = Mapping[str, "Archived"]


@dataclass(frozen=True)
class Summary:
    """A run's best epoch, by bound, or by training loss where the bound is vacuous.

    Attributes:
        learned: False if the run ended early because it had not learned.
        train_linear, bound, kl: those of the best evaluation; the bound in the paper's way.
        test_zero_one: error of the randomised classifier, with new weights for every test example;
            for mlp and pbg, of the sign of their output.
        vote_zero_one: error of the majority vote of a hundred draws; repeats only.
        small_kl: the small-kl bound at the same risk and KL, without a Monte-Carlo term.
        certificate: the bound of certificate.json, Monte-Carlo term included; repeats only. Both
            pay for the priors of resets.
        attempts: number of starts until the run learned.
    """

    learned: bool
    epoch: int
    train_linear: float
    bound: float | None
    kl: float | None
    test_zero_one: float
    vote_zero_one: float | None
    small_kl: float | None
    certificate: float | None
    seconds: float
    attempts: int
    versions: dict[str, str]

    @property
    def guide(self) -> tuple[bool, float, float]:
        """The key by which runs rank: those that learned first, then the bound, then the loss.

        A bound that is missing or prints as 100 % counts as 1.
        """
        bound = 1.0 if self.bound is None else self.bound
        return not self.learned, (bound if bound < VACUOUS else 1.0), self.train_linear


@dataclass(frozen=True)
class Reset:
    """An attempt that was given up, and why."""

    seed: int
    seconds: float
    reason: str


@dataclass(frozen=True)
class Archived:
    """What the small files of a run's folder say; None stands for a file that is missing."""

    configuration: Configuration | None = None
    summary: Summary | None = None
    history: tuple[Evaluation, ...] | None = None
    resets: tuple[Reset, ...] | None = None
    error: str | None = None

    @property
    def settled(self) -> bool:
        """Whether the run has a result; to have diverged is a result."""
        return self.summary is not None or diverged(self.error)

    def within(self, other: Archived) -> bool:
        """Return whether the other says all of this too."""
        return all(value in (None, getattr(other, name)) for name, value in vars(self).items())


def diverged(error: str | None) -> bool:
    """Return whether a run failed because training diverged, which another try cannot change."""
    return "FloatingPointError" in (error or "")


def read_folder(place: Path, *names: str) -> Archived:
    """Return what the files of these names in a run's folder say; by default all of them."""
    paths = {(place / member).stem: place / member for member in MEMBERS}
    said = {}
    for name in names or paths:
        with suppress(FileNotFoundError):
            said[name] = _content(paths[name])
    return _archived(said, lambda name: paths[name])


def _content(path: Path) -> Any:
    return load_json(path) if path.suffix == ".json" else path.read_text().strip()


def read_archive(path: Path) -> Runs:
    """Return the runs of an archive by key; none if there is no archive.

    Raises:
        DamagedFileError: a line is not a run of this column, or two differ about one run.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return {}
    return _read(path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=64)
def _read(path: Path, edition: tuple[int, ...]) -> Runs:
    """Read an archive once for each of its editions: workers ask about every run."""
    runs: dict[str, Archived] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        where = path.with_name(f"{path.name}, line {number},")
        key, run = _parsed(line, where, path.stem)
        if runs.setdefault(key, run) != run:
            raise damaged(where, f"an earlier line differs about {key}")
    return runs


def _parsed(line: bytes, where: Path, column: str) -> tuple[str, Archived]:
    """Return key and contents of one line."""
    said = json_in(line, where)
    if not isinstance(said, dict) or said.keys() - {"key", *vars(Archived())}:
        raise damaged(where, "it is not a run")
    key, run = said.pop("key", None), _archived(said, lambda name: where)
    own = run.configuration is not None and run.configuration.column == column
    if not (own and run.settled and isinstance(key, str) and key.rpartition("-")[0] == column):
        raise damaged(where, f"it is not a finished run of {column}")
    return key, run


def _archived(said: Mapping[str, Any], where: Callable[[str], Path]) -> Archived:
    """Return plain contents by name as records; `where` names the file of each in errors."""

    def one(kind: type[Any], name: str) -> Any:
        return parsed(kind, said[name], where(name)) if name in said else None

    def several(kind: type[Any], name: str) -> Any:
        if name not in said:
            return None
        if not isinstance(said[name], list):
            raise damaged(where(name), f"{name} is not a list")
        return tuple(parsed(kind, each, where(name)) for each in said[name])

    error = said.get("error")
    if not isinstance(error, str | None):
        raise damaged(where("error"), "error is not a text")
    configuration, summary = one(Configuration, "configuration"), one(Summary, "summary")
    evaluations, resets = several(Evaluation, "history"), several(Reset, "resets")
    return Archived(configuration, summary, evaluations, resets, error)


def save_archive(path: Path, runs: Runs) -> None:
    """Write an archive in one step, unless it is the same already."""
    content = "".join(_line(key, runs[key]) for key in sorted(runs)).encode()
    if not path.exists() or path.read_bytes() != content:
        write_atomically(path, content)


def _line(key: str, run: Archived) -> str:
    said = {name: value for name, value in asdict(run).items() if value is not None}
    return json.dumps({"key": key, **said}, separators=(",", ":")) + "\n"
