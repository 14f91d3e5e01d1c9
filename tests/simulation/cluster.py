"""Workers on a store, and what must hold of the runs that they made."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pacbayes.folders.leases import writing
from pacbayes.paper import sweep
from pacbayes.paper.columns import Configuration, chosen
from pacbayes.paper.execution import attempt
from pacbayes.paper.store import State, Store, Summary
from simulation.world import Misfortunes, World

__all__ = ["Conditions", "Outcome", "simulate"]


@dataclass(frozen=True)
class Conditions:
    """A cluster and its work, in seconds.

    Attributes:
        work: mean of a run, which takes half of it to one and a half.
        loading: at most, before a run begins to write.
        starting: time over which the workers start.
        most: time after which the simulation ends in any case.
    """

    workers: int
    runs: int
    seed: int = 0
    work: float = 600.0
    loading: float = 10.0
    starting: float = 60.0
    patience: float = 60.0
    most: float = 86_400.0
    misfortunes: Misfortunes = field(default_factory=Misfortunes)


class _Store(Store):
    """The store, which tells the world when a worker only looks."""

    def state(self, configuration: Configuration) -> State:
        worker = self.clock.worker  # type: ignore[attr-defined]
        worker.looking = True
        try:
            return super().state(configuration)
        finally:
            worker.looking = False


@dataclass
class Attempt:
    """A worker's work on a run.

    Attributes:
        stamps: when it touched the run's lease, which it took at the first of them.
        made: when the work was done; None if the worker was killed before.
        done: when results were saved and the lease was released.
    """

    worker: int
    stamps: list[float]
    made: float | None = None
    done: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What happened.

    Attributes:
        faults: what must not happen: lost runs, runs taken from live workers, errors.
        attempts: by run, in their order.
        killed, stalled: how often.
        seconds: until the last worker ended.
        calls: of the file system, by workers that had a run and by those that looked for one.
        busiest: most calls in a second.
        left: leases and temporary files in the store at the end.
    """

    conditions: Conditions
    faults: list[str]
    attempts: dict[str, list[Attempt]]
    killed: int
    stalled: int
    seconds: float
    calls: tuple[int, int]
    busiest: int
    left: list[str]


def simulate(folder: Path, conditions: Conditions) -> Outcome:
    """Let a cluster make all runs of a store, and check what must hold."""
    world = World(conditions.misfortunes, conditions.seed, conditions.most)
    store = _Store(folder, conditions.patience, world)
    runs = [replace(chosen("mlp", "digits", 1), repeat=i + 1) for i in range(conditions.runs)]
    attempts: dict[str, list[Attempt]] = {c.key: [] for c in runs}

    def make(c: Configuration, place: Path) -> Summary:
        worker, ours = world.worker, Attempt(world.worker.number, world.worker.stamps)
        attempts[c.key].append(ours)
        worker.working = True
        world.sleep(worker.random.uniform(0, conditions.loading))
        with writing(place, world):
            world.sleep(_work(c, conditions))
        ours.made = world.time
        return _summary(c)

    def attempted(c: Configuration) -> str:
        worker, before = world.worker, len(attempts[c.key])
        worker.stamps = []
        state = attempt(c, store, make)
        worker.working = False
        for ours in attempts[c.key][before:]:
            if ours.worker == worker.number and state == "done":
                ours.done = world.time
        return state

    def executor(work: Sequence[Configuration]) -> Iterator[tuple[Configuration, str]]:
        return ((c, attempted(c)) for c in work)

    def act() -> None:
        for c, state in sweep.finished(runs, store, executor):
            if state != "done":
                world.errors.append(f"{c.key} {state}: {store.failure(c)}")

    chance = random.Random(conditions.seed)
    with patch.object(sweep, "_CHANCE", chance), _small_stacks():
        for _ in range(conditions.workers):
            world.spawn(act, world.start + chance.uniform(0, conditions.starting))
        with world.run():
            return Outcome(
                conditions,
                faults=[*world.errors, *_faults(runs, store, attempts)],
                attempts=attempts,
                killed=world.killed,
                stalled=world.stalled,
                seconds=world.time - world.start,
                calls=(world.calls[True], world.calls[False]),
                busiest=max(world.per_second.values()),
                left=_left(store),
            )


@contextmanager
def _small_stacks() -> Iterator[None]:
    """Let there be thousands of threads."""
    before = threading.stack_size(512 * 1024)
    try:
        yield
    finally:
        threading.stack_size(before)


def _work(c: Configuration, conditions: Conditions) -> float:
    return random.Random(c.key).uniform(0.5, 1.5) * conditions.work


def _summary(c: Configuration) -> Summary:
    risk = random.Random(c.key).random()
    nothing: dict[str, Any] = dict.fromkeys(
        ("bound", "kl", "vote_zero_one", "small_kl", "certificate")
    )
    known: dict[str, Any] = {"train_linear": risk, "test_zero_one": risk, "versions": {}}
    return Summary(learned=True, epoch=1, seconds=1.0, attempts=1, **known, **nothing)


def _faults(
    runs: Sequence[Configuration], store: Store, attempts: dict[str, list[Attempt]]
) -> Iterator[str]:
    """Yield runs that are lost, made again, or taken from a worker that was heard of."""
    for c in runs:
        if store.summary(c) != _summary(c):
            yield f"{c.key} is lost"
        in_order = sorted(attempts[c.key], key=lambda each: each.stamps[0])
        for i, later in enumerate(in_order):
            taken = later.stamps[0]
            for earlier in in_order[:i]:
                heard = max(stamp for stamp in earlier.stamps if stamp <= taken)
                if earlier.done is not None and earlier.done <= taken:
                    yield f"{c.key} was made again after it was done"
                elif taken - heard < store.patience - 1:  # between its looks and its taking
                    yield f"{c.key} was taken {taken - heard:.1f} s after a sign of life"


def _left(store: Store) -> list[str]:
    names = (path.name for path in store.folder.rglob("*") if path.is_file())
    return sorted(n for n in names if n not in ("summary.json", "configuration.json"))
