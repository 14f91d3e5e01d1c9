"""One writer at a time: whoever works in a folder holds a lease on it."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

__all__ = ["SYSTEM", "BusyError", "Clock", "Lease", "names_in", "writer", "writing"]

_LEASE, _PATIENCE = "writer", 60.0
_OURS: set[tuple[Path, int]] = set()  # folders that a thread writes to
_WORDS = 4  # of a token: host, process, its space, and a number of its own


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


@dataclass(frozen=True)
class Lease:
    """A file with its holder's token, which the holder touches every few seconds.

    A lease is stale if nobody touches it, or if its holder was a process of this machine that has
    ended. It is not removed but followed by another file, lease.1, lease.2 and so on, which only
    one process can create. So no live lease is ever moved away.

    Attributes:
        path: the first file.
        patience: seconds after which an untouched lease is stale.
        clock: the time by which it is.
    """

    path: Path
    patience: float
    clock: Clock = SYSTEM

    @property
    def alive(self) -> bool:
        """Whether somebody holds the lease, by clocks that must agree within `patience`."""
        return self.alive_among(names_in(self.path.parent))

    def alive_among(self, names: Iterable[str]) -> bool:
        """Return whether somebody holds the lease, given the names in its folder."""
        return any(self._fresh(file) for file in self._leases(names))

    @property
    def owner(self) -> str | None:
        """Who holds the lease, in words; None if nobody does."""
        tokens = [_token(file) or "" for file in self._files() if self._fresh(file)]
        words = [token.split() for token in tokens]
        return next((f"process {w[1]} on {w[0]}" for w in words if len(w) == _WORDS), None)

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Yield whether the lease is ours; while it is, others see it."""
        token = " ".join((*_own(), str(uuid.uuid4())))
        own = self._take(token)
        if own is None:
            yield False
            return
        try:
            with self.clock.repeating(partial(self._beat, own, token), self.patience / 6):
                yield True
        finally:
            self._release(own, token)

    def _take(self, token: str) -> Path | None:
        """Create the next lease and return its file; None if somebody else holds one."""
        names = names_in(self.path.parent)
        for name in names:
            part = self.path.with_name(name)
            if name.startswith(f".{self.path.name}.") and not self._fresh(part):
                part.unlink(missing_ok=True)  # its writer was killed
        files = self._leases(names)
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
        return self._leases(names_in(self.path.parent))

    def _leases(self, names: Iterable[str]) -> list[Path]:
        found = (self.path.with_name(name) for name in names if name.startswith(self.path.name))
        return sorted(found, key=_number)

    def _next(self, files: list[Path]) -> Path:
        if not files:
            return self.path
        return self.path.with_name(f"{self.path.name}.{_number(files[-1]) + 1}")

    def _fresh(self, file: Path) -> bool:
        try:
            young = abs(self.clock.now() - file.stat().st_mtime) < self.patience
        except OSError:
            return False
        return young and not _ended(_token(file))

    def _created(self, file: Path, token: str) -> bool:
        part = self.path.with_name(f".{self.path.name}.{uuid.uuid4()}")
        try:
            part.write_text(token)
            self.clock.stamp(part)
            os.link(part, file)  # appears with its token at once, or not at all
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        return True

    def _beat(self, own: Path, token: str) -> None:
        with suppress(OSError):  # the next beat may work
            if _has(own, token):
                self.clock.stamp(own)

    def _release(self, own: Path, token: str) -> None:
        """Remove our lease and the stale ones before it."""
        if _has(own, token):
            for file in self._files():
                if _number(file) < _number(own) and not self._fresh(file):
                    file.unlink(missing_ok=True)
            own.unlink(missing_ok=True)


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder by one call of the file system; none if it is missing."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _own() -> tuple[str, str, str]:
    """Return host, process, and the space in which processes have their numbers."""
    return _identity(os.getpid())


@cache  # a fork is another process
def _identity(process: int) -> tuple[str, str, str]:
    try:
        space = os.readlink("/proc/self/ns/pid").replace(" ", "")
    except OSError:
        space = "-"
    return socket.gethostname(), str(process), space


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
