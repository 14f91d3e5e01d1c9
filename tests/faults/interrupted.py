"""Kills and failing calls: whatever the system call, the next start ends as if nothing was."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.scene import FIT, Outcome, called, resume

__all__ = [
    "ACTS",
    "Act",
    "case",
    "copied",
    "does_not_hold",
    "in_a_child",
    "undisturbed",
    "wrong_in_the_end",
]

_CALLS = ("replace", "fsync", "link", "unlink", "chmod", "mkdir", "rmdir", "fdopen", "open")


@dataclass(frozen=True)
class Act:
    """A command that writes to a folder.

    Attributes:
        fresh: the folder is removed before.
        holds: what the folder certifies holds before the act, and so at every moment.
    """

    command: tuple[object, ...]
    folder: str
    fresh: bool = False
    holds: bool = False


ACTS = (
    Act(resume("learned"), "learned", fresh=True),
    Act(resume("arrays"), "arrays", fresh=True),
    Act(("certify", "arrays", "--bound", "disintegrated", "--networks", 30), "arrays", holds=True),
    Act(("certify", "learned", "--bound", "held-out"), "learned", holds=True),
    Act(FIT, "classifier", holds=True),
)


def case(number: int, scene: Path, work: Path, *, kill: bool) -> tuple[str, str | None]:
    """Disturb a command at one of its calls, and start it again; return what went wrong."""
    rng = random.Random(f"{kill} {number}")
    act = rng.choice([act for act in ACTS if (scene / act.folder).exists()])
    want, count = undisturbed(act, scene, work)
    at = rng.randrange(count)
    copied(scene, work, act)
    ended = in_a_child(lambda: _disturbed(act.command, at, kill=kill))
    how = "kill" if kill else "fail"
    done = f"{how} at call {at} of {count}; {' '.join(map(str, act.command))}"
    if not kill and (ended is None or ended.fault or ended.code == 1):
        return done, f"ended with {ended}"
    if act.holds and (wrong := does_not_hold(act)):
        return done, wrong
    return done, wrong_in_the_end(act, want)


def does_not_hold(act: Act) -> str | None:
    """Return what `verify` says against the folder, if anything."""
    checked = in_a_child(lambda: called("verify", act.folder))
    return f"verify then: {checked}" if checked is None or checked.code else None


def wrong_in_the_end(act: Act, want: dict[str, Any]) -> str | None:
    """Start the command again without a fault; return what is wrong then."""
    again = in_a_child(lambda: called(*act.command))
    if again is None or again.code or again.fault:
        return f"the next start: {again}"
    return same_contents(want, contents(Path(act.folder)))


_KNOWN: dict[tuple[Path, Act], tuple[dict[str, Any], int]] = {}


def undisturbed(act: Act, scene: Path, work: Path) -> tuple[dict[str, Any], int]:
    """Return what a folder holds without a fault, and the number of calls."""
    if (scene, act) not in _KNOWN:
        copied(scene, work, act)
        log = work / "calls"
        in_a_child(lambda: _counted(act.command, log))
        _KNOWN[scene, act] = contents(Path(act.folder)), int(log.read_text())
    return _KNOWN[scene, act]


def copied(scene: Path, work: Path, act: Act) -> None:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(scene, work, ignore=shutil.ignore_patterns("store"))
    os.chdir(work)
    if act.fresh:
        shutil.rmtree(act.folder)


def contents(folder: Path) -> dict[str, Any]:
    """Return the files of a folder, without the times that they record."""
    return {
        str(p.relative_to(folder)): _untimed(p)
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.startswith("checkpoint") and p.name != "models.skops"
    }


def _untimed(path: Path) -> Any:
    if path.suffix != ".json":
        return path.read_bytes()
    record = json.loads(path.read_text())
    if path.name == "history.json":
        return [{k: v for k, v in e.items() if k != "seconds"} for e in record]
    if path.name in ("run.json", "certificate.json") and isinstance(record, dict):
        record.pop("files", None)  # a skops file names its members at random
        record.pop("run_sha256", None)
    return record


def same_contents(want: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Return the first difference."""
    for name in sorted(want.keys() | found.keys()):
        if want.get(name) != found.get(name):
            return f"{name} differs or is not in both"
    return None


def in_a_child(act: Callable[[], Outcome]) -> Outcome | None:
    """Run in a process of its own; return None if it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            signal.alarm(300)
            ended = act()
            os.write(write, json.dumps(ended.__dict__).encode()[:60_000])
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return Outcome(**json.loads(said)) if said else None


def _patched(before: Callable[[], None]) -> None:
    for name in _CALLS:
        setattr(os, name, _watched(getattr(os, name), before))


def _watched(original: Callable[..., Any], before: Callable[[], None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **given: Any) -> Any:
        before()
        return original(*arguments, **given)

    return watched


def _counted(command: tuple[object, ...], log: Path) -> Outcome:
    calls: list[int] = []
    _patched(lambda: calls.append(1))
    ended = called(*command)
    log.write_text(str(len(calls)))
    return ended


def _disturbed(command: tuple[object, ...], at: int, *, kill: bool) -> Outcome:
    left = [at]

    def before() -> None:
        left[0] -= 1
        if left[0] == -1 and kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if left[0] == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _patched(before)
    return called(*command)
