"""A lease on a run: a file that says who is making it, so that nobody else does."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Lease"]


@dataclass(frozen=True)
class Lease:
    """A file with its holder's token, which the holder touches every few seconds.

    Attributes:
        patience: seconds after which an untouched lease is free again.
    """

    path: Path
    patience: float

    @property
    def alive(self) -> bool:
        """Whether the lease is fresh, by clocks that must agree within `patience`."""
        try:
            return abs(time.time() - self.path.stat().st_mtime) < self.patience
        except OSError:
            return False

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Yield whether the lease is ours; while it is, others see it."""
        token = self._take()
        if token is None:
            yield False
            return
        done = threading.Event()
        beat = threading.Thread(target=self._beat, args=(token, done), daemon=True)
        beat.start()
        try:
            yield True
        finally:
            done.set()
            beat.join()
            if _token(self.path) == token:
                self.path.unlink(missing_ok=True)

    def _take(self) -> str | None:
        """Return the token of a new lease, or None if somebody else has it."""
        seen = _token(self.path)
        stale = self.path.exists() and not self.alive
        if stale and not self._moved_away(seen):
            return None
        return self._created()

    def _moved_away(self, seen: str | None) -> bool:
        """Remove a stale lease; return False if somebody else was quicker."""
        aside = self._beside()
        try:
            self.path.rename(aside)
            if _token(aside) == seen:
                return True
            os.link(aside, self.path)  # it was taken meanwhile: give it back
        except (FileNotFoundError, FileExistsError):
            pass
        finally:
            aside.unlink(missing_ok=True)
        return False

    def _created(self) -> str | None:
        token = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4()}"
        own = self._beside()
        own.write_text(token)
        try:
            os.link(own, self.path)  # appears with its token at once, or not at all
        except FileExistsError:
            return None
        finally:
            own.unlink(missing_ok=True)
        return token

    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{uuid.uuid4()}")

    def _beat(self, token: str, done: threading.Event) -> None:
        while not done.wait(self.patience / 6):
            if _token(self.path) == token:
                with suppress(OSError):
                    os.utime(self.path)


def _token(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
