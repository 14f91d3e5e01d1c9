"""Simulated time, and the threads that take turns in it."""

from __future__ import annotations

import builtins
import heapq
import io
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pacbayes.folders.leases import Clock

__all__ = ["Misfortunes", "Worker", "World"]

_CALLS = ("stat", "open", "scandir", "listdir", "link", "unlink", "replace", "mkdir")
_AT_ONCE = 0.1  # seconds of looks between which nobody else moves


@dataclass(frozen=True)
class Misfortunes:
    """What happens to workers; all times are means of exponential distributions, in seconds.

    Attributes:
        call: of a call of the file system.
        lifetime: until a worker is killed.
        fatal: probability that a worker is killed before a call.
        replaced: until another worker takes the place of a killed one.
        alertness: between two stalls of a worker, in which it neither works nor touches its lease.
        stall: of a stall.
    """

    call: float = 0.002
    lifetime: float = 7_200.0
    fatal: float = 1e-5
    replaced: float = 30.0
    alertness: float = 7_200.0
    stall: float = 60.0


@dataclass
class _Beat:
    due: float
    every: float
    act: Callable[[], None]


class Worker:
    """A thread that moves when its gate is opened."""

    def __init__(self, number: int, random: random.Random, born: float, act: Callable[[], None]):
        self.number, self.random, self.act = number, random, act
        self.gate = threading.Lock()
        self.gate.acquire()
        self.dies = self.stalls = born
        self.beats: list[_Beat] = []
        self.stamps: list[float] = []  # when it touched the lease that it took last
        self.working = self.looking = False
        self.debt = 0.0  # time of calls that has not passed yet
        self.thread: threading.Thread


class _Over(BaseException):
    """Ends the threads of killed workers, when nobody looks at the files any more."""


class World(Clock):
    """The clock of simulated workers. It decides who moves, who is killed and who stalls."""

    def __init__(self, misfortunes: Misfortunes, seed: int, most: float) -> None:
        """Begin a world that ends after `most` seconds, whether its workers have or not."""
        self.misfortunes, self.seed = misfortunes, seed
        self.start = self.time = 1e9
        self.end = self.start + most
        self.killed = self.stalled = 0
        self.calls: Counter[bool] = Counter()  # by whether the worker had a run
        self.per_second: Counter[int] = Counter()
        self.errors: list[str] = []
        self._workers: list[Worker] = []
        self._by_thread: dict[int, Worker] = {}
        self._queue: list[tuple[float, int, Worker]] = []
        self._entered = 0
        self._over, self._ended = False, threading.Event()

    @property
    def worker(self) -> Worker:
        """The worker whose thread asks."""
        return self._by_thread[threading.get_ident()]

    def now(self) -> float:
        return self.time

    def stamp(self, file: Path) -> None:
        if not file.name.startswith("."):  # a new file has its time at once
            self._called()
        os.utime(file, (self.time, self.time))
        if "lease" in file.name:
            self.worker.stamps.append(self.time)

    def sleep(self, seconds: float) -> None:
        worker, end = self.worker, self.time + seconds
        while self.time < end:
            beat = min(worker.beats, key=lambda beat: beat.due, default=_Beat(end, 0, lambda: None))
            self._pause(worker, max(min(end, worker.stalls, beat.due) - self.time, 0))
            if self.time >= worker.stalls:
                self.stalled += 1
                self._pause(worker, self._drawn(worker, self.misfortunes.stall))
                worker.stalls = self.time + self._drawn(worker, self.misfortunes.alertness)
            elif self.time >= beat.due:
                beat.act()
                beat.due = self.time + beat.every

    @contextmanager
    def repeating(self, act: Callable[[], None], seconds: float) -> Iterator[None]:
        worker, beat = self.worker, _Beat(self.time + seconds, seconds, act)
        worker.beats.append(beat)
        try:
            yield
        finally:
            worker.beats.remove(beat)

    def spawn(self, act: Callable[[], None], at: float) -> None:
        """Have a worker act from some time on, and others in its place if it is killed."""
        number = len(self._workers)
        worker = Worker(number, random.Random(f"{self.seed} {number}"), at, act)
        worker.dies += self._drawn(worker, self.misfortunes.lifetime)
        worker.stalls += self._drawn(worker, self.misfortunes.alertness)
        worker.thread = threading.Thread(target=self._live, args=(worker,), daemon=True)
        self._workers.append(worker)
        self._enter(worker, at)
        worker.thread.start()

    @contextmanager
    def run(self) -> Iterator[None]:
        """Let workers move until all have ended or are dead; then the files can be looked at."""
        with self._watched():
            self._move_next()
            self._ended.wait()
        self._over = True
        try:
            yield
        finally:
            for worker in self._workers:
                if worker.thread.is_alive():
                    worker.gate.release()
                    worker.thread.join()

    def _live(self, worker: Worker) -> None:
        self._by_thread[threading.get_ident()] = worker
        try:
            worker.gate.acquire()
            self._check(worker)
            worker.act()
        except _Over:
            return
        except BaseException as error:
            self.errors.append(f"worker {worker.number}: {error!r}")
        self._leave()

    def _pause(self, worker: Worker, seconds: float) -> None:
        """Let others move for some seconds. Nobody returns from here who was killed meanwhile."""
        self._enter(worker, self.time + seconds)
        if self._move_next(worker) is not worker:
            worker.gate.acquire()
        self._check(worker)

    def _enter(self, worker: Worker, at: float) -> None:
        self._entered += 1
        heapq.heappush(self._queue, (at, self._entered, worker))

    def _move_next(self, moving: Worker | None = None) -> Worker:
        at, _, following = heapq.heappop(self._queue)
        self.time = max(self.time, at)
        if following is not moving:
            following.gate.release()
        return following

    def _leave(self) -> None:
        if self._queue and self.time < self.end:
            self._move_next()
        else:
            self._ended.set()

    def _check(self, worker: Worker) -> None:
        if not self._over and self.time >= self.end:
            self.errors.append(f"worker {worker.number} has not ended")
            self._leave()
            worker.gate.acquire()
        elif not self._over and self.time >= worker.dies:
            self.killed += 1
            self.spawn(worker.act, self.time + self._drawn(worker, self.misfortunes.replaced))
            self._leave()
            worker.gate.acquire()
        if self._over:
            raise _Over

    def _drawn(self, worker: Worker, mean: float) -> float:
        return worker.random.expovariate(1 / mean)

    def _called(self) -> None:
        """Take note of a call of the file system, which takes time."""
        worker = self._by_thread.get(threading.get_ident())
        if worker is None or self._over:
            return
        self.calls[worker.working] += 1
        self.per_second[int(self.time + worker.debt)] += 1
        if worker.random.random() < self.misfortunes.fatal:
            worker.dies = self.time
        worker.debt += self._drawn(worker, self.misfortunes.call)
        if not worker.looking or worker.debt > _AT_ONCE:
            seconds, worker.debt = worker.debt, 0.0
            self._pause(worker, seconds)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Take note of the workers' calls, and leave their fsync out."""
        originals = {name: getattr(os, name) for name in (*_CALLS, "fsync")}
        opening = io.open

        def watched(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*given: Any, **named: Any) -> Any:
                self._called()
                return original(*given, **named)

            return call

        for name in _CALLS:
            setattr(os, name, watched(originals[name]))
        os.fsync = lambda handle: None
        builtins.open = io.open = watched(opening)  # type: ignore[assignment]
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(os, name, original)
            builtins.open = io.open = opening  # type: ignore[assignment]
