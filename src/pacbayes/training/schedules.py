"""Schedules: the learning rate as a function of the run so far, with nothing to save or restore."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pacbayes.choices import Protocol

__all__ = ["CONSTANT", "SCHEDULES", "Schedule", "halvings", "warm_cosine"]


def halvings(bounds: Sequence[float]) -> int:
    """Return how often the paper's rule has halved the rate.

    It halves whenever an evaluation is not below the smaller of the two before it.
    """
    return sum(bounds[i] >= min(bounds[i - 2 : i]) for i in range(2, len(bounds)))


def warm_cosine(t: float, warm: float = 0.05) -> float:
    """Rise linearly for the first twentieth of the run, then fall to zero along a cosine."""
    return min(1.0, (t + 1e-3) / warm) * 0.5 * (1 + math.cos(math.pi * t))


@dataclass(frozen=True)
class Schedule:
    """The learning rate and the early end of a run.

    Attributes:
        factor: of the initial learning rate, given the bounds of all evaluations so far and the
            completed fraction of the run.
        gives_up: whether a run that has learned nothing after ten epochs ends, and steps too
            small to matter are skipped, as in the paper.
    """

    factor: Callable[[Sequence[float], float], float]
    gives_up: bool = False


SCHEDULES: dict[Protocol, Schedule] = {
    "paper": Schedule(lambda bounds, done: 0.5 ** halvings(bounds), gives_up=True),
    "fast": Schedule(lambda bounds, done: warm_cosine(done)),
}
CONSTANT = Schedule(lambda bounds, done: 1.0, gives_up=True)
