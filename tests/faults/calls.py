"""Processes of their own, forked from a warm one, and faults at their input and output calls."""

from __future__ import annotations

import builtins
import errno
import gc
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.scene import Outcome, called

__all__ = [
    "CHANGES",
    "ERRORS",
    "begun",
    "die",
    "disturbed",
    "ended",
    "failing",
    "in_a_child",
    "listed",
]

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
CHANGES = ("write", "replace", "rename", "link", "unlink", "mkdir", "rmdir")
_CALLS = (*CHANGES[1:], "fsync", "chmod", "open", "scandir", "listdir")
Before = Callable[[str], None]  # with the name of the call


def in_a_child(act: Callable[[], Outcome]) -> Outcome | None:
    """Run in a process of its own; return None if it was killed."""
    return ended(begun(act))


def begun(act: Callable[[], Outcome]) -> tuple[int, int]:
    """Begin in a process of its own, and return its number and a pipe with what it says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        gc.disable()  # finalizers of inherited objects would make calls of their own, at any time
        try:
            signal.alarm(300)
            said = json.dumps(act().__dict__).encode()
            os.write(write, said[:60_000])
        finally:
            os._exit(0)
    os.close(write)
    return child, read


def ended(running: tuple[int, int]) -> Outcome | None:
    """Wait for a process; return None if it was killed."""
    child, read = running
    with open(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return Outcome(**json.loads(said)) if said else None


def disturbed(
    command: tuple[object, ...], at: int, strike: Callable[[], None], *, lasting: bool = False
) -> Outcome:
    """Run a command that is struck before one call, or `lasting` before all from then on."""
    calls = [0]

    def before(_: str) -> None:
        calls[0] += 1
        if calls[0] - 1 == at or (lasting and calls[0] > at):
            strike()

    _patch(before)
    return called(*command)


def die() -> None:
    """Strike by killing the process."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(code: int) -> Callable[[], None]:
    """Return a strike that fails with an error of the system."""

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    return fail


def listed(command: tuple[object, ...], log: Path) -> Outcome:
    """Run a command, and write the names of its calls to a file."""
    calls: list[str] = []
    _patch(calls.append)
    outcome = called(*command)
    names = list(calls)
    log.write_text(json.dumps(names))
    return outcome


def _patch(before: Before) -> None:
    """Call `before` ahead of this process's calls, and in the middle of its writes."""
    for name in _CALLS:
        setattr(os, name, _watched(name, getattr(os, name), before))
    builtins.open = io.open = _opening(io.open, before)  # type: ignore[assignment]


def _watched(name: str, original: Callable[..., Any], before: Before) -> Callable[..., Any]:
    def watched(*arguments: Any, **given: Any) -> Any:
        before(name)
        return original(*arguments, **given)

    return watched


def _opening(original: Callable[..., Any], before: Before) -> Callable[..., Any]:
    def opened(*arguments: Any, **given: Any) -> Any:
        before("open")
        file = original(*arguments, **given)
        if file.writable():
            file.write = _halving(file, file.write, before)
        return file

    return opened


def _halving(file: Any, write: Callable[[Any], int], before: Before) -> Callable[[Any], int]:
    def halves(content: Any) -> int:
        half = len(content) // 2
        write(content[:half])
        file.flush()
        before("write")
        return half + write(content[half:])

    return halves
