"""The columns of the paper's tables, and the configuration of one run of a column."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pacbayes import paper
from pacbayes.settings import Settings

__all__ = ["ADDED", "COLUMNS", "PAPER", "Configuration", "chosen", "grid"]

PAPER = tuple(paper.COLUMNS)  # the ten of the main table, in its order
ADDED = (
    "pbg-full",  # pbg on the data of the other columns
    *("fast-sign", "fast-sigmoid", "fast-relu"),  # this library's own best
)
COLUMNS = (*PAPER, *ADDED)
_WIDTH = 100
_EDITIONS = dict.fromkeys(  # raised when a column changes, so that its older runs do not count
    ("pbg", "optim-lambda-sign", "optim-lambda-sigmoid", "optim-lambda-relu"), 2
)


@dataclass(frozen=True)
class Configuration:
    """One run: a column at one point of its grid, with one seed.

    Attributes:
        repeat: number of the repeat, which is its seed; grid points have repeat 0.
        attempt: how often the repeat was reset because it learned nothing.
    """

    column: str
    dataset: str
    epochs: int | None
    learning_rate: float
    samples: int
    depth: int
    repeat: int = 0
    attempt: int = 0

    @property
    def key(self) -> str:
        """The folder name, the same for the same run on every machine."""
        edition = {"edition": _EDITIONS[self.column]} if self.column in _EDITIONS else {}
        text = json.dumps(asdict(self) | edition, sort_keys=True)
        return f"{self.column}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def seed(self) -> int:
        return self.repeat + 1000 * self.attempt

    def reset(self) -> Configuration:
        return replace(self, attempt=self.attempt + 1)

    def settings(self) -> Settings:
        """Return the settings of the training loop."""
        kind, _, unit = self.column.rpartition("-")
        own: dict[str, Any] = {"seed": self.seed, "widths": (_WIDTH,) * self.depth}
        own |= {"learning_rate": self.learning_rate, "samples": self.samples}
        if kind == "fast":
            own |= {} if self.epochs is None else {"epochs": self.epochs}
            return Settings.of("fast", unit, **own)  # type: ignore[arg-type]
        own |= {"epochs": self.epochs or 200}
        if self.column == "mlp":
            own |= {"evaluate_every": 1, "epochs": self.epochs or 100}
            return Settings.of("paper", "relu", **own)
        if self.column in ("pbg", "pbg-full"):
            return Settings.of("paper", "sign", **own)
        if kind == "reinforce":
            return Settings.of("paper", unit, estimator="reinforce", **own)  # type: ignore[arg-type]
        return Settings.of("paper", unit, kind, **own)  # type: ignore[arg-type]


def chosen(column: str, dataset: str, epochs: int | None) -> Configuration:
    """Return the hyper-parameters of the paper's second table, or of our own recipe."""
    p = paper.COLUMNS.get(column.removesuffix("-full"))
    if p is not None:
        return _named(Configuration(column, dataset, epochs, p.learning_rate, p.samples, p.depth))
    s = Settings.of("fast", column.removeprefix("fast-"))  # type: ignore[arg-type]
    rate, T, depth = s.learning_rate, s.samples, len(s.widths)
    return _named(Configuration(column, dataset, epochs, rate, T, depth))


def grid(column: str, dataset: str, epochs: int | None) -> Iterator[Configuration]:
    """Yield the paper's search: rates × T, for pbg × depths, for mlp rates alone."""
    if column in ADDED:
        return
    samples = (1,) if column == "mlp" else paper.SAMPLES
    depths = (1, 2, 3) if column == "pbg" else (3,)
    for rate, T, depth in itertools.product(paper.RATES, samples, depths):
        yield _named(Configuration(column, dataset, epochs, rate, T, depth))


def _named(asked: Configuration) -> Configuration:
    """Give one name to one run: leave out epochs that are the default."""
    usual = replace(asked, epochs=None)
    return usual if usual.settings().epochs == asked.epochs else asked
