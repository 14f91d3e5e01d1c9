"""Processes of their own, forked from a warm one, and faults at their input and output calls."""

from __future__ import annotations

import builtins
import errno
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.scene import Outcome, called

__all__ = ["ERRORS", "begun", "counted", "die", "disturbed", "ended", "failing", "in_a_child"]

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
_CALLS = (
    *("replace", "rename", "fsync", "link", "unlink", "chmod", "mkdir", "rmdir", "open"),
    *("scandir", "listdir"),
)


def in_a_child(act: Callable[[], Outcome]) -> Outcome | None:
    """Run in a process of its own; return None if it was killed."""
    return ended(begun(act))


def begun(act: Callable[[], Outcome]) -> tuple[int, int]:
    """Begin in a process of its own, and return its number and a pipe with what it says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
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

    def before() -> None:
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


def counted(command: tuple[object, ...], log: Path) -> Outcome:
    """Run a command, and write the number of its calls to a file."""
    calls: list[int] = []
    _patch(lambda: calls.append(1))
    outcome = called(*command)
    log.write_text(str(len(calls)))
    return outcome


def _patch(before: Callable[[], None]) -> None:
    """Call `before` ahead of this process's calls, and in the middle of its writes."""
    for name in _CALLS:
        setattr(os, name, _watched(getattr(os, name), before))
    builtins.open = io.open = _opening(io.open, before)  # type: ignore[assignment]


def _watched(original: Callable[..., Any], before: Callable[[], None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **given: Any) -> Any:
        before()
        return original(*arguments, **given)

    return watched


def _opening(original: Callable[..., Any], before: Callable[[], None]) -> Callable[..., Any]:
    def opened(*arguments: Any, **given: Any) -> Any:
        before()
        file = original(*arguments, **given)
        if file.writable():
            file.write = _halving(file, file.write, before)
        return file

    return opened


def _halving(
    file: Any, write: Callable[[Any], int], before: Callable[[], None]
) -> Callable[[Any], int]:
    def halves(content: Any) -> int:
        half = len(content) // 2
        write(content[:half])
        file.flush()
        before()
        return half + write(content[half:])

    return halves
