"""Two processes on one folder: both end well or say who is in the way, and the result is right."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from faults.calls import begun, die, disturbed, ended
from faults.interrupted import ACTS, copied, does_not_hold, undisturbed, wrong_in_the_end
from faults.scene import Outcome, called

__all__ = ["case"]

_BUSY = ("is being written by process", "was written to during the check")
_CERTIFY = ("certify", "arrays", "--bound", "disintegrated")


def case(number: int, scene: Path, work: Path) -> tuple[str, str | None]:
    """Run a command twice, or with another, at the same time; return what went wrong."""
    rng = random.Random(f"pair {number}")
    act = rng.choice([act for act in ACTS if (scene / act.folder).exists()])
    want, names = undisturbed(act, scene, work)
    other = act.command
    if act.holds:
        other = rng.choice([act.command, ("verify", act.folder)])
    if act.holds and act.folder == "arrays":
        other = rng.choice([other, (*_CERTIFY, "--networks", 3)])
    copied(scene, work, act)
    delay, killed = rng.choice([0.0, 0.01, 0.03, 0.1]), rng.random() < 0.25
    at = rng.randrange(len(names)) if killed else -1
    first = begun(lambda: disturbed(act.command, at, die))
    second = begun(_late(other, delay))
    ends = [ended(first), ended(second)]
    done = f"{' '.join(map(str, act.command))} with {' '.join(map(str, other))}"
    done += f"; the first is killed at call {at}" if killed else ""
    if wrong := _wrong([e for e in ends if not (killed and e is ends[0] and e is None)]):
        return done, wrong
    if not killed and all(one is not None and one.code for one in ends):
        return done, "neither did it"
    if act.holds and (wrong := does_not_hold(act)):
        return done, wrong
    return done, wrong_in_the_end(act, want)


def _late(command: tuple[object, ...], delay: float) -> Callable[[], Outcome]:
    def late() -> Outcome:
        time.sleep(delay)
        return called(*command)

    return late


def _wrong(ends: list[Outcome | None]) -> str | None:
    for one in ends:
        if one is None or one.fault or (one.code and not _busy(one)):
            return f"ended with {one}"
    return None


def _busy(one: Outcome) -> bool:
    return one.code == 2 and any(words in one.err for words in _BUSY)
