"""Ask which λ the paper's optim-λ columns can have had; `make paper-tables` writes this page.

The paper says that λ descends its bound by SGD at a rate of 0.0001 on every other batch, but not
where λ starts, nor in which variable it moves. This page compares readings of that with the printed
table. It computes and does not train: fix-λ (λ = n = 60 000) and optim-λ from 10⁵ give two measured
points of each network's trade-off. Through them the KL is a power of λ, and the loss falls like the
integral of dKL/λ. Bounds are Catoni's at the best λ.

- *Descent* follows λ from n through the 23 500 λ-steps of a run, while the weights are the best for
  the λ of the moment. The variable λ/n moves λ as ln λ does, and λ itself as the variable does not
  move. 1/λ would leap: its first step is tens of thousands of times its value.
- *Joint optimum* is where λ minimises a bound and the weights minimise R + KL/λ. Every faster rule
  leads there: a rate of 0.01, Adam, or the best λ in closed form after every epoch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pacbayes.bounds import ALPHA, catoni, catoni_lambda
from pacbayes.paper.printed import COLUMNS, DELTA, N, PaperResult
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep

HERE = Path(__file__).parent
STORE = Store(HERE.parent / "results" / "paper")
STEPS, RATE = 200 * 235 // 2, 1e-4  # of λ, on every other batch
AT_ONCE = 50  # steps in one of the descent here
UNITS = ("sign", "sigmoid", "relu")


class Point(NamedTuple):
    """What a network has where its weights minimise R + KL/λ."""

    lam: float
    loss: float
    kl: float

    def __str__(self) -> str:
        bound = 100 * catoni(self.loss, self.kl, N, DELTA)
        return f"{self.lam / N:.2f}: {100 * self.loss:.2f} / {self.kl:.0f} / {bound:.1f}"


class TradeOff(NamedTuple):
    """Loss and KL as functions of λ, through two measured points."""

    first: Point
    second: Point

    @property
    def power(self) -> float:
        return math.log(self.second.kl / self.first.kl) / math.log(self.second.lam / self.first.lam)

    def at(self, lam: float) -> Point:
        a, b, p = self.first, self.second, self.power
        share = (lam ** (p - 1) - a.lam ** (p - 1)) / (b.lam ** (p - 1) - a.lam ** (p - 1))
        return Point(lam, a.loss + share * (b.loss - a.loss), a.kl * (lam / a.lam) ** p)

    def with_kl(self, kl: float) -> Point:
        return self.at(self.first.lam * (kl / self.first.kl) ** (1 / self.power))


def measured(column: str) -> Point:
    """Return the mean of a column's repeats at their best epochs."""
    found = []
    for c, summary in STORE.summaries(Sweep((column,)).repeated(STORE)):
        if summary.learned:
            lam = next(e.lam for e in STORE.history(c) or () if e.epoch == summary.epoch)
            found.append((lam, summary.train_linear, summary.kl or 0.0))
    return Point(*map(statistics.fmean, zip(*found, strict=True)))


def descent(slope: Callable[[Point], float]) -> Callable[[TradeOff], Point]:
    """Move ln λ against a slope."""

    def reached(trade: TradeOff) -> Point:
        point = trade.at(N)
        for _ in range(STEPS // AT_ONCE):
            point = trade.at(point.lam * math.exp(-AT_ONCE * RATE * slope(point)))
        return point

    return reached


def bound_slope(point: Point, alpha: float = ALPHA, h: float = 1e-4) -> float:
    """Return the slope of the bound in ln λ."""
    above, below = (
        catoni(point.loss, point.kl, N, DELTA, lam=point.lam * math.exp(d), alpha=alpha)
        for d in (h, -h)
    )
    return (above - below) / (2 * h)


def joint(alpha: float = ALPHA, loss: float = 1.0) -> Callable[[TradeOff], Point]:
    """Minimise the bound with this α and this multiple of the loss in λ, R + KL/λ in weights."""

    def reached(trade: TradeOff) -> Point:
        point = trade.at(N)
        for _ in range(60):
            best = catoni_lambda(loss * point.loss, point.kl, N, DELTA, alpha=alpha)
            point = trade.at(math.sqrt(point.lam * best))
        return point

    return reached


READINGS: dict[str, Callable[[TradeOff], Point]] = {
    "fix-λ, measured; also λ itself as the variable": lambda trade: trade.first,
    "from 10⁵, measured (this library's columns)": lambda trade: trade.second,
    "from 2n, where it would stay": lambda trade: trade.at(2 * N),
    "descent of the bound in ln λ": descent(bound_slope),
    "descent of the bound in ln λ, α = 2": descent(lambda point: bound_slope(point, 2.0)),
    "descent of R + KL/λ in ln λ": descent(lambda point: -point.kl / point.lam),
    "joint optimum": joint(),
    "joint optimum, α = 1.5 for λ": joint(alpha=1.5),
    "joint optimum, α = 2 for λ": joint(alpha=2.0),
    "joint optimum, α = 3 for λ": joint(alpha=3.0),
    "joint optimum, half the loss for λ": joint(loss=0.5),
}


def page() -> str:
    printed = {units: COLUMNS[f"optim-lambda-{units}"] for units in UNITS}
    trades = {
        units: TradeOff(measured(f"fix-lambda-{units}"), measured(f"optim-lambda-{units}"))
        for units in UNITS
    }
    text = f"# The λ of optim-λ\n\n{__doc__}\n<!-- table -->\n"
    text += "Every cell is λ/n: training loss in % / KL / bound in %.\n\n"
    text += _line("reading", *UNITS, "largest error of the KL")
    text += _line("---", *["---:"] * 4)
    text += _line("**printed**", *(_printed(p) for p in printed.values()), "")
    for name, reached in READINGS.items():
        points = {units: reached(trades[units]) for units in UNITS}
        errors = (points[units].kl / (printed[units].kl or 1.0) - 1 for units in UNITS)
        text += _line(name, *points.values(), f"{100 * max(errors, key=abs):+.0f} %")
    wanted = [trades[units].with_kl(p.kl or 0.0).lam / N for units, p in printed.items()]
    best = [catoni_lambda(p.train_linear, p.kl or 0.0, N, DELTA) / N for p in printed.values()]
    text += "\n| λ/n | sign | sigmoid | relu |\n| --- | ---: | ---: | ---: |\n"
    text += _line("at which weights have the printed KL", *(f"{lam:.2f}" for lam in wanted))
    text += _line("that minimises the printed bound", *(f"{lam:.2f}" for lam in best))
    return text


def _printed(p: PaperResult) -> str:
    return f"{100 * p.train_linear:.2f} / {p.kl:.0f} / {100 * (p.bound or 1.0):.1f}"


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


if __name__ == "__main__":
    (HERE / "optim_lambda.md").write_text(page())
