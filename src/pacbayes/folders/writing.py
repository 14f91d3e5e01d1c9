"""One writer at a time: who trains in a folder holds a lease on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pacbayes.folders.clock import SYSTEM, Clock
from pacbayes.folders.lease import Lease

__all__ = ["BusyError", "writer", "writing"]

_LEASE, _PATIENCE = "writer", 60.0
_OURS: set[tuple[Path, int]] = set()  # folders that a thread writes to


def writer(folder: Path, clock: Clock = SYSTEM) -> Lease:
    """Return the lease that whoever writes to a run folder holds."""
    return Lease(folder / _LEASE, _PATIENCE, clock)


class BusyError(ValueError):
    """Raised when somebody else writes to a run folder."""


@contextmanager
def writing(folder: Path, clock: Clock = SYSTEM) -> Iterator[None]:
    """Be the only writer of a run folder; it need not exist yet.

    A lease by the same thread is shared. A folder that is empty in the end is removed, unless it
    was empty before.

    Raises:
        BusyError: somebody else holds the lease; the message says who.
    """
    key = (folder.resolve(), threading.get_ident())
    if key in _OURS:
        yield
        return
    made = [p for p in (folder, *folder.absolute().parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        made = [folder]  # it may be withdrawn
    try:
        with _held(writer(folder, clock), key):
            yield
    finally:
        with suppress(OSError):  # it holds files, or somebody else was faster
            for path in made:
                path.rmdir()


@contextmanager
def _held(lease: Lease, key: tuple[Path, int]) -> Iterator[None]:
    with lease.held() as ours:
        if not ours:
            folder, owner = lease.path.parent, lease.owner or "somebody else"
            raise BusyError(
                f"{folder} is being written by {owner}; wait until that ends, or choose another "
                "folder"
            )
        _OURS.add(key)
        try:
            yield
        finally:
            _OURS.discard(key)
