"""A folder of runs that may be filled by many processes and machines at once.

runs/<key>/configuration.json  column, hyper-parameters and repeat
runs/<key>/lease               who is making the run, touched every few seconds
runs/<key>/run.json, …         an ordinary run folder (`pacbayes.folders.folder`)
runs/<key>/resets.json         attempts that were given up
runs/<key>/summary.json        its results: the run is done
runs/<key>/error.txt           why it failed, if it did
runs/<column>.jsonl            an archive of finished runs, whose folders are not needed any more

What a run's folder does not say, the archive says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pacbayes.files import exclusive, load_record, remove_parts, save_json, write_atomically
from pacbayes.folders.clock import SYSTEM, Clock
from pacbayes.folders.lease import Lease, names_in
from pacbayes.folders.writing import writer
from pacbayes.paper.archive import (
    MEMBERS,
    Archived,
    Summary,
    diverged,
    read_archive,
    read_folder,
    save_archive,
)
from pacbayes.paper.columns import Configuration
from pacbayes.training.loop import Evaluation

__all__ = ["Packed", "State", "Store", "Summary", "pack"]

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
