"""The table of contests, and their measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from threadpoolctl import threadpool_limits

from pacbayes.bench.evaluations import certificates, fits, predictions
from pacbayes.bench.peers import PEERS, beside
from pacbayes.bench.steps import PAPER_WIDTHS, Case, convolutions, dense_steps
from pacbayes.bench.turns import Contest, MissingError, Plan, Row, compare
from pacbayes.choices import Activation, Predictor

__all__ = ["CONTESTS", "Measurements", "choose", "measure"]

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
