"""Run contenders in turns, and count only the turns in which the machine was free.

On one thread, times are CPU times. A turn counts for two contenders if both got at least 80 % of a
core. On several threads, times are wall times, and plain matrix products run in between as a
canary: a turn counts if these got at least 80 % of all the cores asked for. A row with too few
turns that count has no number.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from pacbayes.choices import Activation

__all__ = [
    "ENOUGH",
    "SIDE",
    "Contest",
    "Entrant",
    "MissingError",
    "Plan",
    "Row",
    "Timing",
    "Turn",
    "bare_products",
    "compare",
    "multiply_adds",
    "now",
    "products",
    "square_product",
    "timed",
]

ENOUGH = 0.8  # of the cores asked for
_CANARY = 10  # products: some hundredths of a second


@dataclass(frozen=True)
class Timing:
    """CPU time and wall time, in seconds."""

    cpu: float
    wall: float

    def share(self, threads: int = 1) -> float:
        """Return the part of its cores that the work got."""
        return self.cpu / (self.wall * threads)

    def __add__(self, other: Timing) -> Timing:
        return Timing(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: Timing) -> Timing:
        return Timing(self.cpu - other.cpu, self.wall - other.wall)

    def __mul__(self, factor: float) -> Timing:
        return Timing(self.cpu * factor, self.wall * factor)


def now() -> Timing:
    """Return the CPU time of this process and of the children it waited for, and the time."""
    children = os.times()
    cpu = time.process_time() + children.children_user + children.children_system
    return Timing(cpu, time.perf_counter())


def timed(work: Callable[[], object]) -> Timing:
    """Do some work once and return its time."""
    start = now()
    work()
    return now() - start


class MissingError(Exception):
    """Something that a contest needs is not installed."""


@dataclass(frozen=True)
class Entrant:
    """A contender.

    Attributes:
        run: one run, given its number.
        scale: the work of the others divided by that of this one, which its time is multiplied by.
    """

    run: Callable[[int], object]
    scale: float = 1.0


@dataclass(frozen=True)
class Contest:
    """Contenders for the same work. The first is ours, and is divided by each of the others.

    Attributes:
        entrants: makes the contenders; raises `MissingError` if one cannot be had.
    """

    name: str
    entrants: Callable[[], dict[str, Entrant]]


@dataclass(frozen=True)
class Plan:
    """How long to measure.

    Attributes:
        turns: that are to count.
        least: turns without which a row has no number, two or more.
        seconds: of a contender's turn, at least.
        patience: seconds after which the least are enough. After twice as many a contest ends,
            busy or not, but not before twice the least turns.
    """

    turns: int = 15
    least: int = 3
    seconds: float = 0.1
    patience: float = 6.0


@dataclass(frozen=True)
class Row:
    """A ratio of times: median and quartiles over the turns that count; None if too few did.

    Attributes:
        seconds: median time of one run of the first contender.
        turns: number of turns that count.
    """

    contest: str
    name: str
    median: float | None
    low: float | None
    high: float | None
    seconds: float | None
    turns: int


@dataclass(frozen=True)
class Turn:
    """The time of one run of every contender, and of the canary if there are several threads."""

    times: dict[str, Timing]
    threads: int = 1
    canary: Timing = field(default=Timing(0.0, 0.0))

    def counts(self, *names: str) -> bool:
        """Return whether contenders had the machine to themselves, or nearly so."""
        if self.threads > 1:
            return self.canary.share(self.threads) >= ENOUGH
        return all(self.times[name].share() >= ENOUGH for name in names)

    def seconds(self, name: str) -> float:
        """Return the time that is compared."""
        return self.times[name].wall if self.threads > 1 else self.times[name].cpu


def compare(contest: Contest, plan: Plan, threads: int = 1) -> list[Row]:
    """Measure a contest: one row for each of the others."""
    entrants = contest.entrants()
    ours, *others = entrants
    found: list[Turn] = []
    start = now().wall
    for turn in _turns(entrants, plan.seconds, threads):
        found.append(turn)
        fewest = min(sum(t.counts(ours, other) for t in found) for other in others)
        late = (now().wall - start) / plan.patience if plan.patience else 2.0
        given_up = late >= 2 and len(found) >= 2 * plan.least
        if fewest >= plan.turns or (late >= 1 and fewest >= plan.least) or given_up:
            break
    return [_row(contest.name, ours, other, found, plan.least) for other in others]


def _turns(entrants: dict[str, Entrant], seconds: float, threads: int) -> Iterator[Turn]:
    repeats = {name: _repeats(entrant, seconds) for name, entrant in entrants.items()}
    canary = square_product()
    while True:
        times, sung = {}, Timing(0.0, 0.0)
        for name, entrant in entrants.items():
            times[name] = _one_run(entrant, repeats[name])
            if threads > 1:
                sung += timed(lambda: [canary(i) for i in range(_CANARY)])
        yield Turn(times, threads, sung)


def _repeats(entrant: Entrant, seconds: float) -> int:
    """Return how often to run a contender in its turn: between once and 50 times."""
    first = timed(lambda: entrant.run(0)).wall  # imports and caches included
    if first > 20 * seconds:
        return 1
    once = timed(lambda: entrant.run(1)).wall
    return max(1, min(50, int(seconds / max(once, 1e-9))))


def _one_run(entrant: Entrant, repeats: int) -> Timing:
    if repeats > 1:
        entrant.run(0)  # fill the caches again
    total = timed(lambda: [entrant.run(i) for i in range(repeats)])
    return total * (entrant.scale / repeats)


def _row(contest: str, ours: str, other: str, found: list[Turn], least: int) -> Row:
    name = f"{ours} ÷ {other}"
    good = [turn for turn in found if turn.counts(ours, other)]
    if len(good) < least:
        return Row(contest, name, None, None, None, None, len(good))
    ratios = [turn.seconds(ours) / turn.seconds(other) for turn in good]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    seconds = statistics.median(turn.seconds(ours) for turn in good)
    return Row(contest, name, middle, low, high, seconds, len(good))


SIDE = 512


def products(
    widths: tuple[int, ...], activation: Activation, T: int, B: int, *, learned: bool = False
) -> Iterator[tuple[int, int, int]]:
    """Yield the shapes (m, k, n) of the products of a training step with B examples.

    The first layer is computed once per example, the others for each of T samples. The gradient of
    the weights costs the same again. So does the gradient of the activations above the first layer,
    except for sign units, which use scores instead. Zeros in the input are counted as well.

    Args:
        learned: scales are learned. Variances then need products like those of the means, except
            where the inputs are signs, whose squares are one.
    """
    for layer, (d, e) in enumerate(pairwise(widths)):
        rows = B * T if layer else B
        signs = layer > 0 and activation == "sign"
        for _ in range(2 if learned and not signs else 1):
            yield rows, d, e
            yield e, rows, d
            if layer and not signs:
                yield rows, e, d


def multiply_adds(shapes: Iterable[tuple[int, int, int]]) -> int:
    """Return the number of multiply-adds of all products."""
    return sum(m * k * n for m, k, n in shapes)


def bare_products(shapes: Iterable[tuple[int, int, int]]) -> Callable[[int], object]:
    """Return a step that only multiplies: PyTorch at the step's shapes, which are not its best."""
    made = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def step(i: int) -> None:
        for a, b, out in made:
            torch.mm(a, b, out=out)

    return step


def square_product() -> Callable[[int], object]:
    """Return a product of 512×512 matrices, a shape at which PyTorch is fast."""
    return bare_products([(SIDE, SIDE, SIDE)])
