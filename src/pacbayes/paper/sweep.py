"""A sweep: the runs that a table needs, how missing ones are made, and how far it is.

The grid comes first, and then the repeats of its winners. Runs are made in processes of this
machine, on a Dask cluster or by a Slurm array. All work on one store, so that results do not depend
on the executor and any of them may be killed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shlex
import statistics
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pacbayes.certificates.executors import connected
from pacbayes.data import DATASETS
from pacbayes.files import load_record, save_json
from pacbayes.paper.columns import ADDED, COLUMNS, Configuration, chosen, grid
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store, Summary
from pacbayes.settings import MOST_EPOCHS
from pacbayes.spelling import did_you_mean
from pacbayes.training.loop import Evaluation

__all__ = [
    "Batch",
    "Executor",
    "Grid",
    "Made",
    "Status",
    "Sweep",
    "count_done",
    "count_missing",
    "dask_runs",
    "finished",
    "local_runs",
    "make_runs",
    "slurm_script",
    "status",
]

Grid = Literal["chosen", "paper"]
BINARY = tuple(name for name, known in DATASETS.items() if known.binary)
_REMEMBERED = "sweep.json"
_MANY, _FEW = 500, 20  # runs
_CHANCE = random.Random()  # of no influence on results
Done = tuple[Configuration, str]
Executor = Callable[[Sequence[Configuration]], Iterator[Done]]


@dataclass(frozen=True)
class Sweep:
    """What is asked for: columns, how to find their hyper-parameters, the number of repeats."""

    columns: Sequence[str]
    dataset: str = "binary-mnist"
    epochs: int | None = None
    repeats: int = 10
    search: Grid = "chosen"

    def __post_init__(self) -> None:
        _check_name("column", self.columns, COLUMNS)
        _check_name("data set of two classes", (self.dataset,), BINARY)
        if not 0 <= self.repeats <= 1000:
            raise ValueError(f"repeats must be between 0 and 1000, got {self.repeats}")
        if self.epochs is not None and not 1 <= self.epochs <= MOST_EPOCHS:
            raise ValueError(f"epochs must be between 1 and {MOST_EPOCHS}, got {self.epochs}")

    def remember(self, store: Store) -> None:
        """Save what is asked for, so that `status` needs only the store's folder."""
        store.folder.mkdir(parents=True, exist_ok=True)
        save_json(store.folder / _REMEMBERED, asdict(self))

    def or_last(self, store: Store) -> Sweep:
        """Return what was last asked of the store, or this sweep if the store does not say."""
        if not store.folder.is_dir():
            raise ValueError(
                f"{store.folder} is not a store of runs; make one with pacbayes reproduce table1"
            )
        path = store.folder / _REMEMBERED
        return load_record(Sweep, path) if path.exists() else self

    def searched(self) -> list[Configuration]:
        """Return every point of the grid; none if the paper's choice is taken."""
        if self.search == "chosen":
            return []
        return [c for column in self.columns for c in grid(column, self.dataset, self.epochs)]

    def search_alone(self) -> Sweep:
        """Return the paper's search alone, without repeats of its winners."""
        searched = tuple(name for name in self.columns if name not in ADDED)
        if not searched:
            raise ValueError(f"the columns {', '.join(ADDED)} have no grid; choose another")
        return replace(self, columns=searched, repeats=0, search="paper")

    def winner(self, column: str, store: Store) -> Configuration | None:
        """Return the best point of a column's grid; None while a point is missing."""
        if self.search == "chosen" or column in ADDED:
            return chosen(column, self.dataset, self.epochs)
        points = list(grid(column, self.dataset, self.epochs))
        if not all(map(store.settled, points)):
            return None
        return _best(store.summaries(points))

    def without_winner(self, store: Store) -> list[str]:
        """Return the columns whose grid is not complete."""
        return [column for column in self.columns if self.winner(column, store) is None]

    def repeated(self, store: Store) -> list[Configuration]:
        """Return the repeats of the winners known so far: all first ones, then all second ones."""
        winners = (self.winner(column, store) for column in self.columns)
        found = [c for w in winners if w is not None for c in self._repeats_of(w, store)]
        return sorted(found, key=lambda c: c.repeat)

    def _repeats_of(self, winner: Configuration, store: Store) -> Iterator[Configuration]:
        """Yield repeats of one configuration, counted from 1.

        A repeat that diverged or never learned, even after resets, is followed by another, so that
        as many learn as were asked for. At most twice as many are made.
        """
        wanted = self.repeats
        for i in range(2 * self.repeats):
            if wanted:
                repeat = replace(winner, repeat=i + 1)
                wanted -= not store.lost(repeat)
                yield repeat

    def shown(self, store: Store) -> dict[str, Configuration]:
        """Return the first repeat of every column that learned, whose curves figures show."""
        found: dict[str, Configuration] = {}
        for c, summary in store.summaries(self.repeated(store)):
            if summary.learned:
                found.setdefault(c.column, c)
        return found

    def histories(self, store: Store) -> dict[str, tuple[Evaluation, ...]]:
        """Return the evaluations of the runs that figures show, by column."""
        found = {column: store.history(c) for column, c in self.shown(store).items()}
        return {column: history for column, history in found.items() if history}


def _best(found: list[tuple[Configuration, Summary]]) -> Configuration | None:
    """Return the best by bound, or by training loss if all are vacuous, among runs that learned."""
    if not found:
        return None
    best, _ = min(found, key=lambda pair: pair[1].guide)
    return best


def _check_name(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; choose from {', '.join(known)}"
            raise ValueError(f"no {kind} {name!r}{hint}")


@dataclass(frozen=True)
class Batch:
    """The runs that are about to be made: how many of how many, and how many are held elsewhere."""

    left: int
    wanted: int
    elsewhere: int


@dataclass(frozen=True)
class Made:
    """A run that has ended, the number-th of its batch."""

    number: int
    left: int
    configuration: Configuration
    state: str
    failure: str | None
    seconds_left: float


def make_runs(sweep: Sweep, store: Store, executor: Executor) -> Iterator[Batch | Made]:
    """Make all missing runs; yield every batch as it begins and every run as it ends."""
    sweep.remember(store)
    yield from _make(sweep.searched(), store, executor)
    made: list[Configuration] = []
    repeats = sweep.repeated(store)
    while made != repeats:  # a repeat that does not learn is followed by another
        yield from _make(repeats, store, executor)
        made, repeats = repeats, sweep.repeated(store)


def count_done(sweep: Sweep, store: Store) -> int:
    """Return the number of runs of the sweep that are done."""
    wanted = {*sweep.searched(), *sweep.repeated(store)}
    return sum(store.summary(c) is not None for c in wanted)


def count_missing(sweep: Sweep, store: Store) -> int:
    """Return the number of missing runs; a grid without a winner counts as one more."""
    missing = _missing(sweep.searched(), store) + _missing(sweep.repeated(store), store)
    return len(missing) + len(sweep.without_winner(store))


def _make(
    wanted: Sequence[Configuration], store: Store, executor: Executor
) -> Iterator[Batch | Made]:
    left, started = _missing(wanted, store), time.monotonic()
    if not left:
        return
    elsewhere = sum(store.state(c) == "running" for c in left)
    yield Batch(len(left), len(wanted), elsewhere)
    for i, (c, state) in enumerate(finished(left, store, executor), 1):
        failure = store.failure(c) if state == "failed" else None
        seconds = (time.monotonic() - started) * (len(left) - i) / i
        yield Made(i, len(left), c, state, failure, seconds)


def _missing(wanted: Sequence[Configuration], store: Store) -> list[Configuration]:
    return [c for c in wanted if not store.settled(c)]


@dataclass(frozen=True)
class Status:
    """Runs by their state.

    Attributes:
        seconds_left: training time on one core, estimated from the column's runs that learned.
        unknown: remaining runs of columns without such an estimate.
        failures: reasons by key of the run.
    """

    done: int
    running: int
    failed: int
    waiting: int
    seconds_left: float
    unknown: int
    failures: dict[str, str]


def status(sweep: Sweep, store: Store) -> Status:
    """Return the progress of search and repeats, also where a search has no winner yet."""
    wanted = [*sweep.searched(), *sweep.repeated(store)]
    unsettled = sweep.repeats * sweep.without_winner(store)
    states = {c: store.state(c) for c in wanted}
    counts = Counter(states.values())
    means = _mean_seconds(wanted, store)
    left = [c.column for c in wanted if not store.settled(c)] + unsettled
    return Status(
        done=counts["done"],
        running=counts["running"],
        failed=counts["failed"],
        waiting=counts["waiting"] + len(unsettled),
        seconds_left=sum(means.get(column, 0.0) for column in left),
        unknown=sum(column not in means for column in left),
        failures=_failures([c for c in wanted if states[c] == "failed"], store),
    )


def _failures(failed: Sequence[Configuration], store: Store) -> dict[str, str]:
    return {c.key: store.failure(c) or "" for c in failed}


def _mean_seconds(wanted: Sequence[Configuration], store: Store) -> dict[str, float]:
    """Return the mean training time of every column's runs that learned."""
    seconds = defaultdict(list)
    for c, summary in store.summaries(wanted):
        if summary.learned:
            seconds[c.column].append(summary.seconds)
    return {column: statistics.fmean(each) for column, each in seconds.items()}


def finished(work: Sequence[Configuration], store: Store, executor: Executor) -> Iterator[Done]:
    """Make free runs, then those that others held or left; yield runs as they end.

    Where many runs are left, begin anywhere among them, and look at a few at a time while others
    hold all of them: a thousand processes that go one way would meet at every run.
    """
    left = list(work)
    wait = shortest = store.patience / 6
    while left:
        waited = wait > shortest
        seen = _CHANCE.sample(left, min(_FEW, len(left))) if waited else _from_anywhere(left)
        states = {c: store.state(c) for c in seen}
        ended = [c for c, state in states.items() if state == "done"]
        yield from ((c, "done") for c in ended)
        rest = len(ended) < len(seen) / 2
        if free := [c for c, state in states.items() if state in ("waiting", "failed")]:
            for c, state in executor(free):
                if state != "busy":
                    ended.append(c)
                    yield c, state
                    wait, rest = shortest, False
        left = _without(left, ended)
        if left and rest:
            store.clock.sleep(wait)
            wait = min(2 * wait, store.patience)


def _from_anywhere(work: list[Configuration]) -> list[Configuration]:
    """Return the runs in their order; many begin at a random place."""
    start = _CHANCE.randrange(len(work)) if len(work) > _MANY else 0
    return work[start:] + work[:start]


def _without(work: Sequence[Configuration], ended: Sequence[Configuration]) -> list[Configuration]:
    over = set(ended)
    return [c for c in work if c not in over]


def local_runs(
    work: Sequence[Configuration], store: Store, workers: int | None = None
) -> Iterator[Done]:
    """Make runs in processes, as many at once as there are cores; yield them as they end."""
    with _pool(len(work), workers) as pool:
        futures = {pool.submit(run, c, store): c for c in work}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise RuntimeError(
                "a worker was killed; run the same command again to continue"
            ) from None
        except BaseException:
            _stop(pool)
            raise


def _pool(runs: int, workers: int | None) -> ProcessPoolExecutor:
    """Return a pool of as many workers as asked for, or as there are cores; no more than runs."""
    count = min(workers or os.cpu_count() or 1, runs) or 1
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    return ProcessPoolExecutor(count, context, _leave_with_parent, (os.getpid(),))


def _stop(pool: ProcessPoolExecutor) -> None:
    for process in list(pool._processes.values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def _leave_with_parent(parent: int) -> None:
    """End a worker whose parent was killed, which would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def dask_runs(work: Sequence[Configuration], store: Store, scheduler: str) -> Iterator[Done]:
    """Make runs on the workers of a Dask scheduler, which must all see the store's folder."""
    with connected(scheduler, again="run the same command again to continue") as client:
        from dask.distributed import as_completed as as_dask_completes

        futures = {client.submit(run, c, store, key=_own_key(c), retries=3): c for c in work}
        for future in as_dask_completes(futures):
            yield futures[future], future.result()


def _own_key(configuration: Configuration) -> str:
    """Return a new key of a task: others may ask the scheduler for the same run."""
    return f"{configuration.key}-{uuid.uuid4()}"


def slurm_script(count: int, command: Sequence[str], folder: Path) -> str:
    """Return an array job of `count` tasks, each of which works until no run is left."""
    line = shlex.join(command)
    return f"""\
#!/bin/bash
#SBATCH --job-name=pacbayes
#SBATCH --array=1-{count}
#SBATCH --cpus-per-task=2
#SBATCH --time=24:00:00
#SBATCH --output="{folder}/slurm-%a.log"
# Every task takes whatever run is free; a task that is killed leaves its run to the others.
{line} --workers 1
"""
