"""Measure several implementations in turns, so that noise on the machine affects all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from pacbayes.bench.limit import bare_products, multiply_adds, products, sgemm_rate
from pacbayes.bench.memory import peak_megabytes
from pacbayes.bench.naive import NaiveNetwork
from pacbayes.choices import Activation
from pacbayes.engine.library import available
from pacbayes.engine.network import NativeEngine
from pacbayes.networks.architecture import build_network
from pacbayes.settings import Settings
from pacbayes.training.trainer import Trainer

__all__ = ["Case", "Growth", "Measurements", "Ratio", "examples", "library_step", "measure"]

PAPER_WIDTHS = (784, 100, 100, 100, 1)
Step = Callable[[int], object]
Measured = TypeVar("Measured")
UNITS: tuple[Activation, ...] = ("relu", "sigmoid", "sign")


@dataclass(frozen=True)
class Case:
    """A kind of step, with the paper's unit variance and marginalised REINFORCE for sign units."""

    activation: Activation
    T: int
    batch: int = 256
    widths: tuple[int, ...] = PAPER_WIDTHS


@dataclass(frozen=True)
class Ratio:
    """The time of one implementation divided by another's: median and quartiles over the turns."""

    case: Case
    name: str
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Growth:
    """The cost of a step in a larger case: time divided by that of the first case, and memory."""

    case: Case
    time: float
    megabytes: float | None


@dataclass(frozen=True)
class Measurements:
    """Everything `pacbayes bench` measures."""

    steps: list[Ratio]
    evaluations: list[Ratio]
    growth: list[Growth]


def measure(*, quick: bool) -> Measurements:
    """Measure everything, which takes minutes, or quickly one kind of step for each activation."""
    if quick:
        return Measurements(list(steps(_cases(10), 3, 0.02)), [], [])
    return Measurements(
        steps=list(steps(_cases(1, 10, 100), 15, 0.1)),
        evaluations=list(evaluations(_cases(10, 100, batch=60_000), 3)),
        growth=list(growth(Case("sign", 10), 5, 0.1)),
    )


def _cases(*samples: int, batch: int = 256) -> list[Case]:
    return [Case(unit, T, batch) for unit in UNITS for T in samples]


def examples(count: int, features: int) -> tuple[Tensor, Tensor]:
    """Return bundled digits, enlarged to images with 81 % zeros like MNIST."""
    from sklearn.datasets import load_digits

    x = torch.from_numpy(load_digits().images).float()[torch.arange(count) % 1797] / 16
    side = max(int(features**0.5), 1)
    inner = max(side - 4, 1)
    grown = torch.nn.functional.interpolate(x.unsqueeze(1), size=(inner, inner), mode="bilinear")
    images = torch.zeros(count, side, side)
    images[:, side - inner - 2 : side - 2, 2 : 2 + inner] = grown[:, 0]
    flat = torch.zeros(count, features)
    flat[:, : side * side] = images.reshape(count, -1)
    flat[flat < torch.quantile(flat[:1000].flatten()[:500_000], 0.81)] = 0
    y = torch.where(torch.arange(count) % 2 == 0, 1.0, -1.0)
    return flat, y


def contenders(case: Case, names: list[str]) -> dict[str, Step]:
    """Return steps by name (native, torch, naive); a step takes its number."""
    torch.manual_seed(0)
    x, y = examples(10 * case.batch, case.widths[0])
    return {
        n: naive_step(case, x, y) if n == "naive" else library_step(case, n, x, y) for n in names
    }


def naive_step(case: Case, x: Tensor, y: Tensor) -> Step:
    """Return a training step of the naive network."""
    network = NaiveNetwork(case.widths, case.activation)
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(i: int) -> None:
        index = _batch(case, i)
        adam.zero_grad()
        network.objective(x[index], y[index], case.T, 60_000.0).backward()
        adam.step()

    return step


def library_step(case: Case, engine: str, x: Tensor, y: Tensor) -> Step:
    """Return a training step of this library, by one of its engines."""
    widths = case.widths[1:-1]
    settings = Settings.of("paper", case.activation, samples=case.T, widths=widths, engine=engine)
    trainer = Trainer(build_network(settings, case.widths[0]), x, y, settings)
    return lambda i: trainer.weight_step(_batch(case, i), i, 1e-3, 1.0)


def _batch(case: Case, i: int) -> Tensor:
    return torch.arange(case.batch * (i % 10), case.batch * (i % 10 + 1))


def turns(steps: dict[str, Step], rounds: int, seconds: float) -> Iterator[dict[str, float]]:
    """Run the implementations in turns and yield their times per step, round by round."""
    counts = {name: _repeats(step, seconds) for name, step in steps.items()}
    for _ in range(rounds):
        yield {name: _seconds_per_step(step, counts[name]) for name, step in steps.items()}


def _repeats(step: Step, seconds: float) -> int:
    """Return how often a step fits into the given time, between once and 50 times."""
    step(0)
    start = time.perf_counter()
    step(1)
    return max(1, min(50, int(seconds / (time.perf_counter() - start))))


def _seconds_per_step(step: Step, count: int) -> float:
    step(0)  # fill the caches again
    start = time.perf_counter()
    for i in range(count):
        step(i)
    return (time.perf_counter() - start) / count


def beside_rate(measured: Iterable[Measured]) -> tuple[list[Measured], float]:
    """Take measurements, with products in between; return them and the products' best rate."""
    found, rates = [], [sgemm_rate()]
    for one in measured:
        found.append(one)
        rates.append(sgemm_rate(0.02))
    return found, max(rates)


def steps(cases: list[Case], rounds: int, seconds: float) -> Iterator[Ratio]:
    """Measure training steps: native and torch ÷ naive, native and its products alone ÷ limit."""
    for case in cases:
        yield from _step_ratios(case, rounds, seconds)


def _step_ratios(case: Case, rounds: int, seconds: float) -> Iterator[Ratio]:
    ours = ["native", "torch"] if available() else ["torch"]
    shapes = list(products(case.widths, case.activation, case.T, case.batch))
    entrants = {**contenders(case, [*ours, "naive"]), "products": bare_products(shapes)}
    found, rate = beside_rate(turns(entrants, rounds, seconds))
    limit = multiply_adds(shapes) / rate
    for name in ours:
        yield ratio(case, f"{name} ÷ naive", [t[name] / t["naive"] for t in found])
    for name in (ours[0], "products"):
        yield ratio(case, f"{name} ÷ limit", [t[name] / limit for t in found])


def evaluations(cases: list[Case], rounds: int) -> Iterator[Ratio]:
    """Measure the loss of a batch without a gradient: native ÷ limit."""
    for case in cases if available() else []:
        found, rate = beside_rate(_evaluation_seconds(case, rounds))
        shapes = products(case.widths, case.activation, case.T, case.batch, gradient=False)
        limit = multiply_adds(shapes) / rate
        yield ratio(case, "native ÷ limit", [t / limit for t in found])


def _evaluation_seconds(case: Case, rounds: int) -> Iterator[float]:
    x, y = examples(case.batch, case.widths[0])
    settings = Settings.of("paper", case.activation, widths=case.widths[1:-1])
    engine = NativeEngine(build_network(settings, case.widths[0]), case.T)
    index = torch.arange(case.batch)
    for i in range(rounds):
        start = time.perf_counter()
        engine.loss(x, y, index, 0, i)
        yield time.perf_counter() - start


def growth(base: Case, rounds: int, seconds: float) -> Iterator[Growth]:
    """Measure a step in the base case, then with another T, batch size, width or depth."""
    name = "native" if available() else "torch"
    for case in [base, *_changed(base)]:
        pair = {
            "base": contenders(base, [name])[name],
            "case": contenders(case, [name])[name],
        }
        found = [t["case"] / t["base"] for t in turns(pair, rounds, seconds)]
        memory = peak_megabytes(case.activation, case.T, case.batch, case.widths, name)
        yield Growth(case, statistics.median(found), memory)


def _changed(base: Case) -> list[Case]:
    first, *inner, last = base.widths
    return [
        *(replace(base, T=T) for T in (1, 100)),
        *(replace(base, batch=b) for b in (64, 1024)),
        *(replace(base, widths=(first, *[w] * len(inner), last)) for w in (50, 200, 400)),
        *(replace(base, widths=(first, *[inner[0]] * d, last)) for d in (1, 6)),
    ]


def ratio(case: Case, name: str, values: list[float]) -> Ratio:
    """Summarise ratios by their median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return Ratio(case, name, middle, low, high)
