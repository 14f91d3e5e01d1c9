"""Contenders for training steps: dense networks, wide ones, k classes, and a convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pacbayes.bench.limit import SIDE, bare_products, multiply_adds, products, square_product
from pacbayes.bench.naive import NaiveNetwork
from pacbayes.bench.turns import Entrant
from pacbayes.choices import Activation, Engine
from pacbayes.engine.library import available
from pacbayes.networks.architecture import build_network
from pacbayes.networks.modules import Convolutions
from pacbayes.networks.stochastic import stochastic
from pacbayes.settings import Settings
from pacbayes.training.trainer import Trainer

__all__ = [
    "PAPER_WIDTHS",
    "Case",
    "Step",
    "adam_step",
    "convolutions",
    "dense_steps",
    "examples",
    "library_step",
    "naive_step",
]

PAPER_WIDTHS = (784, 100, 100, 100, 1)
IMAGES = (1, 28, 28)
N = 60_000  # examples that a step's KL is divided by
Step = Callable[[int], object]


@dataclass(frozen=True)
class Case:
    """A kind of step, with the paper's marginalised REINFORCE for sign units.

    Attributes:
        widths: inputs, hidden layers, and one output, or one for each of k > 2 classes.
        learned: scales are learned, instead of the paper's unit variance.
    """

    activation: Activation
    T: int
    batch: int = 256
    widths: tuple[int, ...] = PAPER_WIDTHS
    learned: bool = False

    @property
    def classes(self) -> int:
        """Number of classes."""
        return max(2, self.widths[-1])

    def index(self, i: int) -> Tensor:
        """Return the examples of step i, of ten batches."""
        return torch.arange(self.batch * (i % 10), self.batch * (i % 10 + 1))

    def data(self) -> tuple[Tensor, Tensor]:
        """Return ten batches of examples and labels."""
        return examples(10 * self.batch, self.widths[0], self.classes)


def examples(count: int, features: int, classes: int = 2) -> tuple[Tensor, Tensor]:
    """Return bundled digits, enlarged to images with 81 % zeros like MNIST, and some labels."""
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
    y = torch.arange(count) % classes
    return flat, y if classes > 2 else 1.0 - 2 * y


def dense_steps(case: Case, *others: str) -> dict[str, Entrant]:
    """Return the engine's step, and others by name: torch, naive, products, limit."""
    torch.manual_seed(0)
    x, y = case.data()
    shapes = list(products(case.widths, case.activation, case.T, case.batch, learned=case.learned))
    made: dict[str, Callable[[], Entrant]] = {
        "native": lambda: Entrant(library_step(case, "native", x, y)),
        "torch": lambda: Entrant(library_step(case, "torch", x, y)),
        "naive": lambda: Entrant(naive_step(case, x, y)),
        "products": lambda: Entrant(bare_products(shapes)),
        "limit": lambda: Entrant(square_product(), multiply_adds(shapes) / SIDE**3),
    }
    return {name: made[name]() for name in (["native"] if available() else []) + [*others]}


def library_step(case: Case, engine: Engine, x: Tensor, y: Tensor) -> Step:
    """Return a training step of this library, by one of its engines."""
    settings = Settings.of(
        "paper",
        case.activation,
        samples=case.T,
        widths=case.widths[1:-1],
        learned_scale=case.learned,
        engine=engine,
    )
    network = build_network(settings, case.widths[0], case.classes)
    trainer = Trainer(network, x, y, settings)
    return lambda i: trainer.weight_step(case.index(i), i, 1e-3, 1.0)


def naive_step(case: Case, x: Tensor, y: Tensor) -> Step:
    """Return a training step of the naive network."""
    network = NaiveNetwork(case.widths, case.activation)
    objective = lambda x, y: network.objective(x, y, case.T, N)
    return adam_step(network, objective, case, x, y)


def adam_step(
    module: nn.Module,
    objective: Callable[[Tensor, Tensor], Tensor],
    case: Case,
    x: Tensor,
    y: Tensor,
) -> Step:
    """Return a step of a module on an objective of a batch, as a training loop of one's own."""
    adam = torch.optim.Adam(module.parameters(), lr=1e-3)

    def step(i: int) -> None:
        index = case.index(i)
        adam.zero_grad()
        objective(x[index], y[index]).backward()
        adam.step()

    return step


def convolutions() -> dict[str, Entrant]:
    """Return a step of `pacbayes train --network conv`, and one of the same module as it is."""
    torch.manual_seed(0)
    case = Case("relu", 1)
    x, y = case.data()
    x = x.reshape(-1, *IMAGES)
    module = Convolutions().build(IMAGES, 1)
    plain = lambda x, y: softplus(-y * module(x).squeeze(-1)).mean()
    settings = Settings.of("fast", samples=case.T, engine="torch")
    trainer = Trainer(stochastic(Convolutions().build(IMAGES, 1), seed=0), x, y, settings)
    return {
        "stochastic": Entrant(lambda i: trainer.weight_step(case.index(i), i, 1e-3, 1.0)),
        "plain": Entrant(adam_step(module, plain, case, x, y)),
    }
