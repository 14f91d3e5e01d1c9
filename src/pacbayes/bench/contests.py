"""The table of contests, their measurement, and the report in Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from threadpoolctl import threadpool_limits

from pacbayes.bench.evaluations import certificates, fits, predictions
from pacbayes.bench.steps import PAPER_WIDTHS, PEERS, Case, beside, convolutions, dense_steps
from pacbayes.bench.turns import ENOUGH, Contest, MissingError, Plan, Row, compare
from pacbayes.choices import Activation, Predictor
from pacbayes.folders.record import versions

__all__ = ["CONTESTS", "Measurements", "choose", "machine", "measure", "report"]

_UNITS: tuple[Activation, ...] = ("relu", "sigmoid", "sign")
_WIDE: tuple[Activation, ...] = ("relu", "sign")
_QUICK = [f"step, {unit}, T = 10" for unit in _UNITS]


def _paper(unit: Activation, T: int) -> Contest:
    others = "torch", "naive", "products", "limit"
    return Contest(f"step, {unit}, T = {T}", partial(dense_steps, Case(unit, T), *others))


def _wide(unit: Activation, width: int) -> Contest:
    case = Case(unit, 4, widths=(784, width, width, 1), learned=True)
    name = f"step, {unit}, width {width}, T = 4"
    return Contest(name, partial(dense_steps, case, "torch", "limit"))


def _classes(k: int) -> Contest:
    case = Case("relu", 4, widths=(*PAPER_WIDTHS[:-1], k), learned=True)
    return Contest(f"step, relu, {k} classes, T = 4", partial(dense_steps, case, "torch"))


def _peer(package: str) -> Contest:
    case = Case("relu", 10, learned=True)
    return Contest(f"step, relu, learned scales, T = 10, {package}", partial(beside, package, case))


CONTESTS = [
    *(_paper(unit, T) for unit in _UNITS for T in (1, 10, 100)),
    *(_wide(unit, width) for unit in _WIDE for width in (500, 1000, 2000)),
    *(_classes(k) for k in (10, 100)),
    *map(_peer, PEERS),
    Contest("step, convolution", convolutions),
    Contest("certificate, relu", partial(certificates, "relu")),
    Contest("certificate, sign", partial(certificates, "sign")),
    Contest("certificate, relu, 10 classes", partial(certificates, "relu", 10, few=100)),
    Contest("certificate, relu, 100 classes", partial(certificates, "relu", 100, few=20)),
    Contest("randomised predictions", partial(predictions, Predictor.RANDOMISED)),
    Contest("votes", partial(predictions, Predictor.VOTE)),
    Contest("fit", fits),
]


@dataclass(frozen=True)
class Measurements:
    """Everything `pacbayes bench` found.

    Attributes:
        skipped: contests that were not held, with the reason.
    """

    rows: list[Row]
    skipped: list[str]

    @property
    def warning(self) -> str:
        """One line if the machine was too busy for some rows; empty otherwise."""
        busy = sum(row.median is None for row in self.rows)
        if not busy:
            return ""
        return (
            f"{busy} of {len(self.rows)} rows have no number, because other programs kept the "
            "machine busy; measure again when it is idle"
        )


def choose(only: Sequence[str] = (), *, quick: bool = False) -> list[Contest]:
    """Return the contests with one of the given parts in their names.

    Without parts these are all, or a few if it is to be quick.
    """
    for part in only:
        if not any(part in contest.name for contest in CONTESTS):
            names = "; ".join(contest.name for contest in CONTESTS)
            raise ValueError(f"no row has {part!r} in its name; the names are: {names}")
    if only:
        return [contest for contest in CONTESTS if any(part in contest.name for part in only)]
    return [contest for contest in CONTESTS if not quick or contest.name in _QUICK]


def measure(contests: Sequence[Contest] = CONTESTS, *, quick: bool = False) -> Measurements:
    """Hold contests one after the other, with as many threads as PyTorch has."""
    plan = Plan(turns=3, least=2, seconds=0.02, patience=1.0) if quick else Plan()
    threads = torch.get_num_threads()
    rows, skipped = [], []
    for contest in contests:
        try:
            with threadpool_limits(threads):  # of numpy as well
                rows += compare(contest, plan, threads)
        except MissingError as missing:
            skipped.append(f"{contest.name}: {missing}")
    return Measurements(rows, skipped)


_ENOUGH = f"{100 * ENOUGH:.0f} %"
_EXPLANATION = f"""\
Contenders take turns in one process. A number is the median of the ratio of their times over the
turns, with its quartiles: below one, the first is faster. On one thread, times are CPU times, and a
turn counts if both got at least {_ENOUGH} of a core. On several threads, times are wall times, and
a turn counts if plain matrix products in between got at least {_ENOUGH} of all cores. Where too few
turns count, a row says *busy* and has no number. The last column is the time of one run of the
first.

- A *step* is a training step (forward, gradients, KL, Adam) with a batch of 256 digits with 81 %
  zeros. The network is the paper's, 784-100-100-100-1 with unit variance. Steps with a width have
  two hidden layers of that width. These, those with classes and those beside other packages learn
  their scales.
- *native* is this library's engine, *torch* this library on PyTorch, and *naive* a straightforward
  implementation in eager PyTorch.
- *products* are the step's matrix products in PyTorch and nothing else. *limit* is their time at
  the rate of 512×512 products in the same turn. The engine may beat it, since it skips zeros and
  looks up sums of signs instead of multiplying.
- Other packages are used as published. They draw weights that a batch shares, in ten passes for
  T = 10, where the engine draws units for every example.
- The *convolution* is that of `pacbayes train --network conv`, and *plain* the same module with
  fixed weights.
- A *certificate* is the sampling of its risk in float64: 2000 examples, 100 draws, the paper's
  network with learned scales. PyTorch has fewer examples, and its time is scaled.
- *Randomised predictions* and *votes* (100 draws) are of 2000 examples and the same network.
- *fit* is on a table of 20 000 × 10 with defaults. `PACBayesClassifier` trains a prior and a
  posterior and issues a certificate; scikit-learn's `MLPClassifier` trains one network with 100
  hidden units for 200 epochs or until its loss stops improving, and has no certificate.
"""


def machine() -> str:
    """Return processor, cores and versions in one line."""
    v = versions()
    return (
        f"{v['processor']}, {os.cpu_count()} cores, {v['instructions']}, {v['threads']} threads; "
        f"pacbayes {v['pacbayes']}, torch {v['torch']}, Python {v['python']}"
    )


def report(found: Measurements) -> str:
    """Return all measurements, the machine they were made on, and what they mean."""
    parts = [_EXPLANATION, machine() + "\n", table(found.rows)]
    if found.skipped:
        parts.append("Skipped:\n\n" + "".join(f"- {one}\n" for one in found.skipped))
    if found.warning:
        parts.append(f"Warning: {found.warning}.\n")
    return "\n".join(parts)


def table(rows: list[Row]) -> str:
    """Return rows as a table."""
    header = "| | | median | quartiles | time |\n|---|---|---:|---:|---:|\n"
    return header + "".join(f"|{'|'.join(map(_cell, _cells(row)))}|\n" for row in rows)


def _cell(text: str) -> str:
    return f" {text} " if text else " "


def _cells(row: Row) -> list[str]:
    if row.median is None or row.low is None or row.high is None or row.seconds is None:
        return [row.contest, row.name, "busy", "", ""]
    quartiles = f"{_short(row.low)} – {_short(row.high)}"
    return [row.contest, row.name, _short(row.median), quartiles, _duration(row.seconds)]


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
