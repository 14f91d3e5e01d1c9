"""Time as leases see it: the system's, or that of a simulation."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SYSTEM", "Clock"]


@dataclass(frozen=True)
class Clock:
    """The system's time. A simulation overrides every method."""

    def now(self) -> float:
        """Return the time in seconds, as files are stamped with it."""
        return time.time()

    def stamp(self, file: Path) -> None:
        """Set a file's time to now."""
        os.utime(file)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    @contextmanager
    def repeating(self, act: Callable[[], None], seconds: float) -> Iterator[None]:
        """Act every so many seconds, in a thread, until the end of the block."""
        done = threading.Event()

        def repeat() -> None:
            while not done.wait(seconds):
                act()

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


SYSTEM = Clock()
