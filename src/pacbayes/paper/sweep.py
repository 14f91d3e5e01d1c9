"""A sweep: the runs that a table needs, how missing ones are made, and how far it is.

The grid comes first, and then the repeats of its winners.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from pacbayes.data import DATASETS
from pacbayes.files import load_record, save_json
from pacbayes.paper.archive import Summary
from pacbayes.paper.columns import ADDED, COLUMNS, Configuration, chosen, grid
from pacbayes.paper.executors import Executor, finished
from pacbayes.paper.store import Store
from pacbayes.settings import MOST_EPOCHS
from pacbayes.spelling import did_you_mean
from pacbayes.training.loop import Evaluation

__all__ = [
    "Batch",
    "Grid",
    "Made",
    "Status",
    "Sweep",
    "count_done",
    "count_missing",
    "make_runs",
    "status",
]

Grid = Literal["chosen", "paper"]
BINARY = tuple(name for name, known in DATASETS.items() if known.binary)
_REMEMBERED = "sweep.json"


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
