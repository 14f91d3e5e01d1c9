"""Make the runs of a sweep that are missing: the grid first, then the repeats of its winners."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pacbayes.experiments.columns import Configuration
from pacbayes.experiments.executors import Executor, finished
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep

__all__ = ["Batch", "Made", "count_done", "count_missing", "make_runs"]


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
