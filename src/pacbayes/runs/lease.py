"""A lease on a folder: a file that says who works there, so that nobody else does."""

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

_WORDS = 4  # of a token: host, process, its space, and a number of its own


@dataclass(frozen=True)
class Lease:
    """A file with its holder's token, which the holder touches every few seconds.

    A lease is stale if nobody touches it, or if its holder was a process of this machine that has
    ended. It is not removed but followed by another file, lease.1, lease.2 and so on, which only
    one process can create. So no live lease is ever moved away.

    Attributes:
        path: the first file.
        patience: seconds after which an untouched lease is stale.
    """

    path: Path
    patience: float

    @property
    def alive(self) -> bool:
        """Whether somebody holds the lease, by clocks that must agree within `patience`."""
        return any(self._fresh(file) for file in self._files())

    @property
    def owner(self) -> str | None:
        """Who holds the lease, in words; None if nobody does."""
        tokens = [_token(file) or "" for file in self._files() if self._fresh(file)]
        words = [token.split() for token in tokens]
        return next((f"process {w[1]} on {w[0]}" for w in words if len(w) == _WORDS), None)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Yield whether the lease is ours; while it is, others see it."""
        token, done = " ".join((*_own(), str(uuid.uuid4()))), threading.Event()
        own = self._take(token)
        if own is None:
            yield False
            return
        beat = threading.Thread(target=self._beat, args=(own, token, done), daemon=True)
        beat.start()
        try:
            yield True
        finally:
            done.set()
            beat.join()
            self._release(own, token)

    def _take(self, token: str) -> Path | None:
        """Create the next lease and return its file; None if somebody else holds one."""
        for part in self.path.parent.glob(f".{self.path.name}.*"):
            if not self._fresh(part):  # its writer was killed
                part.unlink(missing_ok=True)
        files = self._files()
        if any(self._fresh(file) for file in files):
            return None
        own = self._next(files)
        if not self._created(own, token):
            return None
        if any(self._fresh(file) for file in self._files() if file != own):
            own.unlink(missing_ok=True)  # the lease was released and taken since we looked
            return None
        return own

    def _files(self) -> list[Path]:
        """Return all leases, stale ones included, in the order of their numbers."""
        return sorted(self.path.parent.glob(f"{self.path.name}*"), key=_number)

    def _next(self, files: list[Path]) -> Path:
        if not files:
            return self.path
        return self.path.with_name(f"{self.path.name}.{_number(files[-1]) + 1}")

    def _fresh(self, file: Path) -> bool:
        try:
            young = abs(time.time() - file.stat().st_mtime) < self.patience
        except OSError:
            return False
        return young and not _ended(_token(file))

    def _created(self, file: Path, token: str) -> bool:
        part = self.path.with_name(f".{self.path.name}.{uuid.uuid4()}")
        try:
            part.write_text(token)
            os.link(part, file)  # appears with its token at once, or not at all
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def _beat(self, own: Path, token: str, done: threading.Event) -> None:
        while not done.wait(self.patience / 6):
            with suppress(OSError):  # the next beat may work
                if _has(own, token):
                    os.utime(own)

    def _release(self, own: Path, token: str) -> None:
        """Remove our lease and the stale ones before it."""
        if _has(own, token):
            for file in self._files():
                if _number(file) < _number(own) and not self._fresh(file):
                    file.unlink(missing_ok=True)
            own.unlink(missing_ok=True)


def _own() -> tuple[str, str, str]:
    """Return host, process, and the space in which processes have their numbers."""
    try:
        space = os.readlink("/proc/self/ns/pid").replace(" ", "")
    except OSError:
        space = "-"
    return socket.gethostname(), str(os.getpid()), space


def _ended(token: str | None) -> bool:
    """Return whether the holder was a process of this machine that is no more."""
    words, own = (token or "").split(), _own()
    if len(words) != _WORDS or (words[0], words[2]) != (own[0], own[2]):
        return False
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


def _number(file: Path) -> int:
    """Return the number in lease.3, and 0 for the first file."""
    end = file.suffix[1:]
    return int(end) if end.isdigit() else 0


def _has(path: Path, token: str) -> bool:
    """Return whether a lease is the token's; one that cannot be read is not another's."""
    try:
        return path.read_text() == token
    except FileNotFoundError:
        return False


def _token(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
