"""Who makes the runs: processes of this machine, a Dask cluster, or a Slurm array.

All work on one store, so the results are the same whoever does, and any of them may be killed.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from pacbayes.experiments.columns import Configuration
from pacbayes.experiments.execution import run
from pacbayes.experiments.store import Store

__all__ = ["dask_runs", "local_runs", "slurm_script"]

Done = tuple[Configuration, str]


def local_runs(
    work: Sequence[Configuration], store: Store, workers: int | None = None
) -> Iterator[Done]:
    """A process per run and as many at once as there are cores; yields runs as they end."""
    workers = min(workers or os.cpu_count() or 1, len(work)) or 1
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(run, c, store): c for c in work}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise RuntimeError("a worker was killed; the same command goes on from here") from None
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def dask_runs(work: Sequence[Configuration], store: Store, scheduler: str) -> Iterator[Done]:
    """On the workers of a Dask scheduler, all of which must see the store's folder."""
    try:
        from dask.distributed import Client
        from dask.distributed import as_completed as as_dask_completes
    except ImportError:
        raise ValueError("--executor dask needs pip install 'pacbayes[cluster]'") from None
    with Client(scheduler) as client:
        futures = {client.submit(run, c, store, key=c.key, retries=3, pure=True): c for c in work}
        for future in as_dask_completes(futures):
            yield futures[future], future.result()


def slurm_script(count: int, command: Sequence[str], folder: Path) -> str:
    """An array job of `count` tasks, each of which works at the store until nothing is left."""
    line = shlex.join(command)
    return f"""\
#!/bin/bash
#SBATCH --job-name=pacbayes
#SBATCH --array=1-{count}
#SBATCH --cpus-per-task=2
#SBATCH --time=24:00:00
#SBATCH --output={folder}/slurm-%a.log
# Every task takes whatever run is free; a task that is killed leaves its run to the others.
{line} --workers 1
"""
