"""Kills and failing calls: whatever the system call, the next start ends as if nothing was."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.calls import CHANGES, ERRORS, die, disturbed, failing, in_a_child, listed
from faults.scene import FIT, called, resume

__all__ = [
    "ACTS",
    "Act",
    "case",
    "copied",
    "does_not_hold",
    "struck",
    "undisturbed",
    "warm",
    "wrong_in_the_end",
]


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
    Act(resume("unfinished"), "unfinished"),
    Act(resume("learning"), "learning"),
    Act(("certify", "arrays", "--bound", "disintegrated", "--networks", 30), "arrays", holds=True),
    Act(("certify", "learned", "--bound", "held-out"), "learned", holds=True),
    Act(FIT, "classifier", holds=True),
    Act(FIT, "classifier", fresh=True),
    Act(("make", "store", "fast-sign"), "store", fresh=True),
    Act(("make", "store", "mlp"), "store", fresh=True),
)


def case(number: int, scene: Path, work: Path, *, kill: bool) -> tuple[str, str | None]:
    """Disturb a command at one of its calls, and start it again; return what went wrong."""
    rng = random.Random(f"{kill} {number}")
    act = rng.choice([act for act in ACTS if (scene / act.folder).exists()])
    names = undisturbed(act, scene, work)[1]
    changes = [i for i, name in enumerate(names) if name in CHANGES]
    at = rng.choice(rng.choice([changes, range(len(names))]))
    code = None if kill else rng.choice(ERRORS)
    return struck(act, at, code, scene, work, lasting=rng.random() < 0.5)


def struck(
    act: Act, at: int, code: int | None, scene: Path, work: Path, *, lasting: bool = False
) -> tuple[str, str | None]:
    """Kill a command at one of its calls, or fail it with an error; return what went wrong."""
    want, names = undisturbed(act, scene, work)
    copied(scene, work, act)
    how = "kill at" if code is None else f"{errno.errorcode[code]} {'from' if lasting else 'at'}"
    done = f"{how} call {at} of {len(names)}, {names[at]}; {' '.join(map(str, act.command))}"
    strike = die if code is None else failing(code)
    outcome = in_a_child(lambda: disturbed(act.command, at, strike, lasting=lasting))
    if code is None and outcome is not None:
        return done, "it ended before that call"
    if code is not None and (outcome is None or outcome.fault or outcome.code == 1):
        return done, f"ended with {outcome}"
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
    if act.holds and (wrong := does_not_hold(act)):
        return f"in the end, {wrong}"
    return same_contents(want, contents(Path(act.folder)))


_KNOWN: dict[tuple[Path, Act], tuple[dict[str, Any], list[str]]] = {}


def undisturbed(act: Act, scene: Path, work: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what a folder holds without a fault, and the names of the calls."""
    if (scene, act) not in _KNOWN:
        copied(scene, work, act)
        log = work / "calls"
        in_a_child(lambda: listed(act.command, log))
        _KNOWN[scene, act] = contents(Path(act.folder)), json.loads(log.read_text())
    return _KNOWN[scene, act]


def copied(scene: Path, work: Path, act: Act) -> None:
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    os.chdir(work)
    if not act.fresh:
        shutil.copytree(scene / act.folder, act.folder)
    for path in scene.glob("data.*"):
        shutil.copy(path, ".")


def contents(folder: Path) -> dict[str, Any]:
    """Return the files of a folder, without the times that they record."""
    return {
        str(p.relative_to(folder)): _untimed(p)
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.startswith("checkpoint") and p.name != "models.skops"
    }


def _untimed(path: Path) -> Any:
    content = path.read_bytes()
    try:
        record = json.loads(content)
    except ValueError:
        return content
    if path.name == "history.json":
        return [{k: v for k, v in e.items() if k != "seconds"} for e in record]
    timed = {"files", "run_sha256"}  # a skops file names its members at random
    timed |= {"seconds"} if path.name == "summary.json" else set()
    if isinstance(record, dict):
        return {k: v for k, v in record.items() if k not in timed}
    return record


def same_contents(want: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Return the first difference."""
    for name in sorted(want.keys() | found.keys()):
        if want.get(name) != found.get(name):
            return f"{name} differs or is not in both"
    return None


def warm(scene: Path, work: Path) -> None:
    """Run every command once, so that the processes of the cases need not import anything."""
    for act in ACTS:
        if (scene / act.folder).exists():
            copied(scene, work, act)
            called(*act.command)
            called("verify", act.folder)
