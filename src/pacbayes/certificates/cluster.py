"""The scheduler of a Dask cluster: connect to it, and say in one line what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from pacbayes.extras import require

__all__ = ["connected"]

_PATIENCE = 10.0  # seconds for a scheduler to answer


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

    errors = [f"no answer in {_PATIENCE:g} s"]

    async def ask() -> None:
        (await connect(scheduler, timeout=_PATIENCE / 2)).abort()

    def call() -> None:
        try:
            asyncio.run(ask())
            errors.clear()
        except Exception as error:
            errors[:] = [str(error)]

    thread = threading.Thread(target=call, daemon=True)  # another program may never answer
    thread.start()
    thread.join(_PATIENCE)
    for error in errors:
        raise ValueError(
            f"--scheduler {scheduler}: there is no Dask scheduler ({error}); give the address of "
            "one, such as tcp://10.0.0.1:8786"
        )
