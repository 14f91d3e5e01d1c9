"""Two processes on one folder: both end well or say who is in the way, and the result is right."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from faults.interrupted import (
    ACTS,
    copied,
    does_not_hold,
    in_a_child,
    undisturbed,
    wrong_in_the_end,
)
from faults.scene import Outcome, called

__all__ = ["case"]

_CERTIFY = ("certify", "arrays", "--bound", "disintegrated")


def case(number: int, scene: Path, work: Path) -> tuple[str, str | None]:
    """Run a command twice, or with another, at the same time; return what went wrong."""
    rng = random.Random(f"pair {number}")
    act = rng.choice([act for act in ACTS if (scene / act.folder).exists()])
    want, _ = undisturbed(act, scene, work)
    other = act.command
    if act.holds and act.folder == "arrays":
        other = rng.choice([act.command, (*_CERTIFY, "--networks", 3), ("verify", "arrays")])
    copied(scene, work, act)
    delays = (0.0, rng.choice([0.0, 0.01, 0.1, 0.3]))
    ended = _at_once([act.command, other], delays)
    done = f"{' '.join(map(str, act.command))} with {' '.join(map(str, other))}"
    for one in ended:
        if one is None or one.fault or (one.code and not _busy(one)):
            return done, f"ended with {one}"
    if all(one is not None and one.code for one in ended):
        return done, "neither did it"
    if act.holds and (wrong := does_not_hold(act)):
        return done, wrong
    return done, wrong_in_the_end(act, want)


def _busy(ended: Outcome) -> bool:
    return ended.code == 2 and "is being written by process" in ended.err


def _at_once(commands: list[tuple[object, ...]], delays: tuple[float, ...]) -> list[Outcome | None]:
    found: dict[int, Outcome | None] = {}

    def run(i: int) -> None:
        def late() -> Outcome:
            time.sleep(delays[i])
            return called(*commands[i])

        found[i] = in_a_child(late)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(commands))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[i] for i in range(len(commands))]
