"""Deal the parts of a certificate's risk to the workers of a Dask cluster.

A part comes with its examples, so that workers need neither the run's folder nor its data. Before
its first part every worker draws the losses of a few examples that this process drew too; unless
all bits are the same, the certificate is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import pacbayes
from pacbayes.devices import CPU
from pacbayes.engine.library import available
from pacbayes.extras import require
from pacbayes.networks.risk import Part, Sums, Work

__all__ = ["connected", "dask_parts"]

_ANSWER = 10.0  # seconds for a scheduler to answer
Array = NDArray[Any]
_FEW = 20  # examples that are drawn for a comparison, where their bits do not depend on company
_PATIENCE = 20.0  # seconds without any worker
_ONE_AT_A_TIME = threading.Lock()  # of the parts whose bits depend on torch's number of threads


@contextmanager
def connected(scheduler: str, *, again: str) -> Iterator[Any]:
    """Connect to a scheduler, and yield Dask's client.

    Raises ValueError if no scheduler answers at the address, and RuntimeError if it goes away.

    Args:
        again: what to do after it went away, for the message.
    """
    require("cluster", "--executor dask")
    from dask.distributed import Client, KilledWorker

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is raised here
    _check_answer(scheduler)
    try:
        with Client(scheduler) as client:
            yield client
    except (CancelledError, KilledWorker, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise  # another error, perhaps of a worker's disk
        raise RuntimeError(
            f"lost the scheduler {scheduler} or too many of its workers "
            f"({type(error).__name__}); {again}"
        ) from None


def _check_answer(scheduler: str) -> None:
    """Raise ValueError unless something of Dask answers: a client that fails never ends."""
    from distributed.comm.core import connect

    errors = [f"no answer in {_ANSWER:g} s"]

    async def ask() -> None:
        (await connect(scheduler, timeout=_ANSWER / 2)).abort()

    def call() -> None:
        try:
            asyncio.run(ask())
            errors.clear()
        except Exception as error:
            errors[:] = [str(error)]

    thread = threading.Thread(target=call, daemon=True)  # another program may never answer
    thread.start()
    thread.join(_ANSWER)
    for error in errors:
        raise ValueError(
            f"--scheduler {scheduler}: there is no Dask scheduler ({error}); give the address of "
            "one, such as tcp://10.0.0.1:8786"
        )


def dask_parts(
    work: Work, x: Tensor, y: Tensor, parts: Sequence[Part], scheduler: str
) -> Iterator[Sums]:
    """Compute the parts on the workers of a Dask scheduler; yield them in order.

    Args:
        scheduler: its address.
    """
    if x.device != CPU:
        raise ValueError(f"--executor dask needs examples on the CPU, got {x.device}")
    blocks = ((x[p.examples].numpy(), y[p.examples].numpy(), p) for p in parts)
    with connected(scheduler, again="run the same command again") as client:
        # A task of its own, which the scheduler repeats if all its holders die.
        job = client.submit(_received, _job(work, x, y, parts[0]), pure=False)
        _wait(client, job, scheduler)
        client.replicate(job)  # or its first holder would have most of the parts
        waiting: deque[Any] = deque()
        while True:
            for block in islice(blocks, max(0, _ahead(client) - len(waiting))):
                waiting.append(client.submit(_computed, job, *block, pure=False))
            if not waiting:
                return
            yield _result(client, waiting.popleft(), scheduler)


def _ahead(client: Any) -> int:
    """Return the number of parts that are sent ahead: enough to keep every worker busy."""
    return 2 * sum(_threads_of_workers(client).values()) + 2


def _threads_of_workers(client: Any) -> dict[str, int]:
    """Return the number of threads of every worker; raise OSError if the scheduler is lost."""
    if client.status != "running":  # the client would try for half a minute
        raise ConnectionError
    threads: dict[str, int] = client.nthreads()
    return threads


def _wait(client: Any, future: Any, scheduler: str) -> None:
    """Wait for a result; raise RuntimeError if there are no workers for some time."""
    from dask.distributed import TimeoutError as TimedOutError
    from dask.distributed import wait

    while not future.done():
        with suppress(TimedOutError):
            wait(future, timeout=_PATIENCE)
        if not future.done() and not _threads_of_workers(client):
            raise RuntimeError(
                f"the scheduler {scheduler} has no workers; start some: dask worker {scheduler}"
            )


def _result(client: Any, future: Any, scheduler: str) -> Sums:
    _wait(client, future, scheduler)
    try:
        found: Sums = future.result()
    except (ImportError, AttributeError, TypeError) as error:  # code that it does not have
        raise RuntimeError(
            f"a worker of {scheduler} failed ({type(error).__name__}: {error}); every worker needs "
            f"pacbayes {pacbayes.__version__}"
        ) from None
    return found


def _job(work: Work, x: Tensor, y: Tensor, first: Part) -> _Job:
    stop = first.stop if work.threads else min(first.stop, _FEW)
    part = replace(first, stop=stop)
    unchecked = _Job(work, x[:stop].numpy(), y[:stop].numpy(), part, {})
    return replace(unchecked, expected=unchecked.manner)


@dataclass(frozen=True)
class _Job:
    """Work, and a part by which a worker is known to do it with the same bits.

    Attributes:
        expected: versions and bits of the process that asks for it.
    """

    work: Work
    x: Array
    y: Array
    part: Part
    expected: dict[str, str]

    @cached_property
    def manner(self) -> dict[str, str]:
        """Versions here, and a hash of the bits of losses."""
        found = {
            "pacbayes": pacbayes.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        }
        if self.work.threads is None:
            found["the engine"] = "native" if available() else "PyTorch"
        others = {k for k, v in self.expected.items() if k in found and v != found[k]}
        return found if others else found | {"the losses": self._digest()}

    @torch.no_grad()
    def _digest(self) -> str:
        examples = _tensors(self.x, self.y)
        with _threads(self.work.threads):
            losses = self.work.losses(*examples, self.part).numpy()
            sums = self.work(*examples, self.part)
        return hashlib.sha256(losses.tobytes() + repr(sums).encode()).hexdigest()[:16]

    def check(self) -> None:
        """Raise ValueError unless this process would compute the same bits."""
        for name, value in self.expected.items():
            if self.manner.get(name) != value:
                raise ValueError(
                    f"a worker on {platform.node()} has {name} {self.manner.get(name)} instead of "
                    f"{value}, so the certificate would have other bits; use workers with the "
                    "versions, the engine and the kind of processor of this machine"
                )


def _received(job: _Job) -> _Job:
    return job


def _computed(job: _Job, x: Array, y: Array, part: Part) -> Sums:
    job.check()
    with _threads(job.work.threads):
        return job.work(*_tensors(x, y), part)


def _tensors(x: Array, y: Array) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(np.array(x)), torch.from_numpy(np.array(y))


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Let torch have a number of threads for a while; None leaves it as it is."""
    if number is None:
        yield
        return
    with _ONE_AT_A_TIME:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)
