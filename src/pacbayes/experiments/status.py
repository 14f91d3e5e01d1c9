"""How far a sweep is: what is done, running, failed and waiting, and how long the rest may take."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep

__all__ = ["Status", "status"]


@dataclass(frozen=True)
class Status:
    """Runs by their state.

    Attributes:
        seconds_left: of training, on one core, by the mean of the column's runs that learned.
        unknown: runs left of which there is no such mean.
        failures: why, by the key of the run.
    """

    done: int
    running: int
    failed: int
    waiting: int
    seconds_left: float
    unknown: int
    failures: dict[str, str]


def status(sweep: Sweep, store: Store) -> Status:
    """Of the search, and of the repeats, also where a search has no winner to repeat yet."""
    asked = [*sweep.searched(), *sweep.repeated(store)]
    unsettled = [name for name in sweep.columns if sweep.winner(name, store) is None]
    states = {c: store.state(c) for c in asked}
    counts = Counter(states.values())
    counts["waiting"] += sweep.repeats * len(unsettled)
    seconds: dict[str, list[float]] = {}
    for c in asked:
        if (summary := store.summary(c)) is not None and summary.learned:
            seconds.setdefault(c.column, []).append(summary.seconds)
    means = {column: statistics.fmean(each) for column, each in seconds.items()}
    left = [c.column for c, state in states.items() if state != "done" and not store.diverged(c)]
    left += sweep.repeats * unsettled
    return Status(
        done=counts["done"],
        running=counts["running"],
        failed=counts["failed"],
        waiting=counts["waiting"],
        seconds_left=sum(means.get(column, 0.0) for column in left),
        unknown=sum(column not in means for column in left),
        failures={c.key: store.failure(c) or "" for c, s in states.items() if s == "failed"},
    )
