"""A folder of runs that may be filled by many processes and machines at once.

runs/<key>/configuration.json  column, hyper-parameters and repeat
runs/<key>/lease               who is making the run, touched every few seconds
runs/<key>/run.json, …         an ordinary run folder (`pacbayes.folders.folder`)
runs/<key>/resets.json         attempts that were given up
runs/<key>/summary.json        its results: the run is done
runs/<key>/error.txt           why it failed, if it did
runs/<column>.jsonl            an archive of finished runs, whose folders are not needed any more

An archive has a JSON object on each line, in the order of the keys: what the small files of a run's
folder say (`MEMBERS`). What a run's folder does not say, the archive says. Weights stay in folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pacbayes.files import (
    damaged,
    exclusive,
    json_in,
    load_json,
    load_record,
    parsed,
    remove_parts,
    save_json,
    write_atomically,
)
from pacbayes.folders.leases import SYSTEM, Clock, Lease, names_in, writer
from pacbayes.paper.columns import Configuration
from pacbayes.training.loop import VACUOUS, Evaluation

__all__ = [
    "MEMBERS",
    "Archived",
    "Packed",
    "Reset",
    "State",
    "Store",
    "Summary",
    "diverged",
    "pack",
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


State = Literal["done", "running", "failed", "waiting"]


@dataclass(frozen=True)
class Store:
    """Runs by configuration; every method is safe while others work on the same folder.

    Attributes:
        patience: seconds after which an untouched lease is free again.
        clock: the time by which it is.
    """

    folder: Path
    patience: float = 60.0
    clock: Clock = SYSTEM

    def place(self, configuration: Configuration) -> Path:
        """Return the folder of a run."""
        return self._runs / configuration.key

    def summary(self, configuration: Configuration) -> Summary | None:
        """Return a finished run's results."""
        here = read_folder(self.place(configuration), "summary")
        return here.summary or self._archived(configuration).summary

    def history(self, configuration: Configuration) -> tuple[Evaluation, ...] | None:
        """Return a run's evaluations; None if it has none."""
        here = read_folder(self.place(configuration), "history")
        return here.history or self._archived(configuration).history

    def summaries(
        self, configurations: Iterable[Configuration]
    ) -> list[tuple[Configuration, Summary]]:
        """Return those of the runs that are finished, with their results."""
        pairs = ((c, self.summary(c)) for c in configurations)
        return [(c, summary) for c, summary in pairs if summary is not None]

    def configurations(self) -> list[Configuration]:
        """Return the configurations of all runs, begun or finished, in the order of their keys."""
        found = {key: run.configuration for key, run in self._all_archived().items()}
        for path in self._runs.glob("*/configuration.json"):
            found[path.parent.name] = load_record(Configuration, path)
        return [c for _, c in sorted(found.items()) if c is not None]

    def count_finished(self) -> int:
        """Return the number of runs with a summary."""
        keys = {key for key, run in self._all_archived().items() if run.summary is not None}
        return len(keys | {path.parent.name for path in self._runs.glob("*/summary.json")})

    def state(self, configuration: Configuration) -> State:
        """Return how far a run is."""
        place = self.place(configuration)
        there = set(names_in(place))  # one call of the file system: many workers ask often
        if "summary.json" in there:
            return "done"
        leases = (self._lease(configuration), self._writer(configuration))
        if any(lease.alive_among(there) for lease in leases):
            return "running"
        archived = self._archived(configuration)
        if archived.summary is not None:
            return "done"
        return "failed" if "error.txt" in there or archived.error else "waiting"

    def failure(self, configuration: Configuration) -> str | None:
        """Return why a run failed; None if it did not."""
        here = read_folder(self.place(configuration), "error")
        return here.error or self._archived(configuration).error

    def diverged(self, configuration: Configuration) -> bool:
        """Return whether training diverged, which another try would not change."""
        return diverged(self.failure(configuration))

    def settled(self, configuration: Configuration) -> bool:
        """Return whether the run has a result; to have diverged is a result."""
        return self.summary(configuration) is not None or self.diverged(configuration)

    def lost(self, configuration: Configuration) -> bool:
        """Return whether the run diverged or never learned."""
        summary = self.summary(configuration)
        return self.diverged(configuration) if summary is None else not summary.learned

    def finish(self, configuration: Configuration, summary: Summary) -> None:
        """Save the results of a run, which is then done."""
        save_json(self.place(configuration) / "summary.json", asdict(summary))
        (self.place(configuration) / "error.txt").unlink(missing_ok=True)

    def fail(self, configuration: Configuration, reason: str) -> None:
        """Save why a run failed; it may be tried again."""
        write_atomically(self.place(configuration) / "error.txt", f"{reason}\n".encode())

    @contextmanager
    def lease(self, configuration: Configuration) -> Iterator[bool]:
        """Yield whether the run is ours to make; while it is, others see the lease.

        It is not while somebody writes to the folder: the writer's lease of a process that was
        killed can become stale some seconds after that of the run.
        """
        place = self.place(configuration)
        place.mkdir(parents=True, exist_ok=True)
        with self._lease(configuration).held() as taken:
            ours = taken and not self._writer(configuration).alive
            if ours:
                remove_parts(place)
            if ours and not (place / "configuration.json").exists():
                save_json(place / "configuration.json", asdict(configuration))
            yield ours

    @property
    def _runs(self) -> Path:
        return self.folder / "runs"

    def _archived(self, configuration: Configuration) -> Archived:
        """Return what the archive says of a run."""
        runs = read_archive(self._runs / f"{configuration.column}.jsonl")
        return runs.get(configuration.key, Archived())

    def _all_archived(self) -> dict[str, Archived]:
        archives = map(read_archive, self._runs.glob("*.jsonl"))
        return {key: run for runs in archives for key, run in runs.items()}

    def _lease(self, configuration: Configuration) -> Lease:
        return Lease(self.place(configuration) / "lease", self.patience, self.clock)

    def _writer(self, configuration: Configuration) -> Lease:
        return writer(self.place(configuration), self.clock)


@dataclass(frozen=True)
class Packed:
    """What `pack` did.

    Attributes:
        runs: in the archives now.
        added: of these, by this call.
        removed: folders that held nothing else.
        kept: folders of archived runs that hold other files too, such as weights.
    """

    runs: int
    added: int
    removed: int
    kept: int


def pack(store: Store) -> Packed:
    """Write finished runs into the archives of their columns, and remove folders with no more.

    Runs that are in an archive stay there. After a kill at any moment each run is in its archive,
    in its folder or in both, and the next call continues.

    Raises:
        ValueError: a folder differs from the archive about a run.
    """
    runs = store.folder / "runs"
    if not runs.is_dir():
        raise ValueError(f"{store.folder} is not a store of runs; give one made by reproduce")
    with exclusive(runs):
        remove_parts(runs)
        archives = {path.stem: dict(read_archive(path)) for path in runs.glob("*.jsonl")}
        before = sum(map(len, archives.values()))
        folders = sorted(path for path in runs.iterdir() if path.is_dir())
        packed = [place for place in folders if _added(place, archives)]
        for column, found in archives.items():
            save_archive(runs / f"{column}.jsonl", found)
        removed = sum(map(_removed, packed))
    total = sum(map(len, archives.values()))
    return Packed(total, total - before, removed, len(packed) - removed)


def _added(place: Path, archives: dict[str, dict[str, Archived]]) -> bool:
    """Add a run to its archive; return whether the archive has all that the folder says."""
    key, there = place.name, read_folder(place)
    archived = archives.get(key.rpartition("-")[0], {}).get(key)
    if archived is not None:
        if there.settled and not there.within(archived):
            raise ValueError(
                f"the run {key} is in its folder and in the archive with different contents; "
                f"remove the wrong one from {place.parent}"
            )
        return there.within(archived)
    c = there.configuration
    if c is None or c.key != key or not there.settled:
        return False  # in progress, or of an earlier edition of its column
    archives.setdefault(c.column, {})[key] = there
    return True


def _removed(place: Path) -> bool:
    """Remove a folder if it holds only what was packed; return whether it did."""
    if not set(names_in(place)) <= set(MEMBERS):
        return False
    for name in MEMBERS:
        (place / name).unlink(missing_ok=True)
    place.rmdir()
    return True
