"""Executors of a sweep's runs: processes of this machine, a Dask cluster, or a Slurm array.

All work on one store, so that results do not depend on the executor and any of them may be killed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shlex
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from pacbayes.certificates.cluster import connected
from pacbayes.paper.columns import Configuration
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store

__all__ = ["Executor", "dask_runs", "finished", "local_runs", "slurm_script"]

_MANY, _FEW = 500, 20  # runs
_CHANCE = random.Random()  # of no influence on results
Done = tuple[Configuration, str]
Executor = Callable[[Sequence[Configuration]], Iterator[Done]]


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
