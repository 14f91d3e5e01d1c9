"""The progress of a sweep: runs by state, and how long the rest may take."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pacbayes.experiments.columns import Configuration
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep

__all__ = ["Status", "status"]


@dataclass(frozen=True)
class Status:
    """Runs by their state.

    Attributes:
        seconds_left: training time on one core, estimated from the column's runs that learned.
        unknown: remaining runs of columns without such an estimate.
        failures: reasons by key of the run.
    """

    done: int
    running: int
    failed: int
    waiting: int
    seconds_left: float
    unknown: int
    failures: dict[str, str]


def status(sweep: Sweep, store: Store) -> Status:
    """Return the progress of search and repeats, also where a search has no winner yet."""
    wanted = [*sweep.searched(), *sweep.repeated(store)]
    unsettled = sweep.repeats * sweep.without_winner(store)
    states = {c: store.state(c) for c in wanted}
    counts = Counter(states.values())
    means = _mean_seconds(wanted, store)
    left = [c.column for c in wanted if not store.settled(c)] + unsettled
    return Status(
        done=counts["done"],
        running=counts["running"],
        failed=counts["failed"],
        waiting=counts["waiting"] + len(unsettled),
        seconds_left=sum(means.get(column, 0.0) for column in left),
        unknown=sum(column not in means for column in left),
        failures=_failures([c for c in wanted if states[c] == "failed"], store),
    )


def _failures(failed: Sequence[Configuration], store: Store) -> dict[str, str]:
    return {c.key: store.failure(c) or "" for c in failed}


def _mean_seconds(wanted: Sequence[Configuration], store: Store) -> dict[str, float]:
    """Return the mean training time of every column's runs that learned."""
    seconds = defaultdict(list)
    for c, summary in store.summaries(wanted):
        if summary.learned:
            seconds[c.column].append(summary.seconds)
    return {column: statistics.fmean(each) for column, each in seconds.items()}
