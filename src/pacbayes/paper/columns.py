"""The columns of the paper's tables, and the configuration of one run of a column."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from pacbayes.choices import Activation
from pacbayes.paper import printed
from pacbayes.settings import Settings

__all__ = ["ADDED", "COLUMNS", "PAPER", "Configuration", "chosen", "grid"]

PAPER = tuple(printed.COLUMNS)  # the ten of the main table, in its order
ADDED = (
    "pbg-full",  # pbg on the data of the other columns
    *("fast-sign", "fast-sigmoid", "fast-relu"),  # this library's own best
)
COLUMNS = (*PAPER, *ADDED)
_WIDTH = 100
_EDITIONS = {  # raised when a column changes, so that its older runs do not count
    "pbg": {"edition": 3},
    "pbg-full": {"edition": 2},
    "optim-lambda-sign": {"edition": 2},
    "optim-lambda-sigmoid": {"edition": 2},
    "optim-lambda-relu": {"edition": 2},
}
_SEARCHED_SAMPLES = {"mlp": (1,)}  # elsewhere the paper's
_SEARCHED_DEPTHS = {"pbg": (1, 2, 3)}  # elsewhere three


def _published(activation: Activation, **changes: Any) -> dict[str, Any]:
    return {"protocol": "paper", "activation": activation, "epochs": 200} | changes


_RECIPES: dict[str, dict[str, Any]] = {  # arguments of `Settings.of`
    "mlp": _published("relu", epochs=100, evaluate_every=1),
    "pbg": _published("sign"),
    "pbg-full": _published("sign"),
    "reinforce-sign": _published("sign", estimator="reinforce"),
    "reinforce-relu": _published("relu", estimator="reinforce"),
    "fix-lambda-sign": _published("sign", objective="fix-lambda"),
    "fix-lambda-sigmoid": _published("sigmoid", objective="fix-lambda"),
    "fix-lambda-relu": _published("relu", objective="fix-lambda"),
    "optim-lambda-sign": _published("sign", objective="optim-lambda"),
    "optim-lambda-sigmoid": _published("sigmoid", objective="optim-lambda"),
    "optim-lambda-relu": _published("relu", objective="optim-lambda"),
    "fast-sign": {"protocol": "fast", "activation": "sign"},
    "fast-sigmoid": {"protocol": "fast", "activation": "sigmoid"},
    "fast-relu": {"protocol": "fast", "activation": "relu"},
}


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

    @cached_property
    def key(self) -> str:
        """The folder name, the same for the same run on every machine."""
        text = json.dumps(asdict(self) | _EDITIONS.get(self.column, {}), sort_keys=True)
        return f"{self.column}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def seed(self) -> int:
        """The seed of the run, of its own for every repeat and attempt."""
        return self.repeat + 1000 * self.attempt

    def starts(self, most: int) -> list[Configuration]:
        """Return the starts that may be made until one learns, each with a seed of its own.

        A point of the grid has only one: the grid keeps its failures.
        """
        return [replace(self, attempt=i) for i in range(most if self.repeat else 1)]

    def settings(self) -> Settings:
        """Return the settings of the training loop."""
        own = {
            "seed": self.seed,
            "widths": (_WIDTH,) * self.depth,
            "learning_rate": self.learning_rate,
            "samples": self.samples,
        }
        epochs = {} if self.epochs is None else {"epochs": self.epochs}
        return Settings.of(**_RECIPES[self.column] | own | epochs)


def chosen(column: str, dataset: str, epochs: int | None) -> Configuration:
    """Return the hyper-parameters of the paper's second table, or of our own recipe."""
    p = printed.COLUMNS.get(column.removesuffix("-full"))
    if p is not None:
        return _named(Configuration(column, dataset, epochs, p.learning_rate, p.samples, p.depth))
    s = Settings.of("fast", column.removeprefix("fast-"))  # type: ignore[arg-type]
    rate, T, depth = s.learning_rate, s.samples, 3  # the paper's network
    return _named(Configuration(column, dataset, epochs, rate, T, depth))


def grid(column: str, dataset: str, epochs: int | None) -> Iterator[Configuration]:
    """Yield the paper's search: rates × T, for pbg × depths, for mlp rates alone."""
    if column in ADDED:
        return
    samples = _SEARCHED_SAMPLES.get(column, printed.SAMPLES)
    depths = _SEARCHED_DEPTHS.get(column, (3,))
    for rate, T, depth in itertools.product(printed.RATES, samples, depths):
        yield _named(Configuration(column, dataset, epochs, rate, T, depth))


def _named(asked: Configuration) -> Configuration:
    """Give one name to one run: leave out epochs that are the default."""
    usual = replace(asked, epochs=None)
    return usual if usual.settings().epochs == asked.epochs else asked
