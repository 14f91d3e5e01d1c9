"""Contenders for training steps: of this library, in plain PyTorch, and of other packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import linear, softplus

from pacbayes.bench.turns import (
    SIDE,
    Entrant,
    MissingError,
    bare_products,
    multiply_adds,
    products,
    square_product,
)
from pacbayes.choices import Activation, Engine
from pacbayes.engine.library import available
from pacbayes.networks.architecture import build_network
from pacbayes.networks.modules import Convolutions
from pacbayes.networks.stochastic import stochastic
from pacbayes.settings import Settings
from pacbayes.training.trainer import Trainer

__all__ = [
    "PAPER_WIDTHS",
    "PEERS",
    "Case",
    "NaiveNetwork",
    "Step",
    "adam_step",
    "beside",
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


_PATHS = {"relu": torch.relu, "sigmoid": torch.sigmoid}


class NaiveNetwork(nn.Module):
    """A partially aggregated network with unit variance; sign units use marginalised REINFORCE.

    Plain PyTorch: eager mode, autograd and `torch.optim.Adam`. It uses nothing of this library, so
    it is also an independent check of the mathematics.
    """

    def __init__(self, widths: tuple[int, ...], activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        self.weights = nn.ParameterList([torch.randn(e, d) * 0.2 for d, e in pairwise(widths)])
        self.biases = nn.ParameterList([torch.randn(e) * 0.2 for e in widths[1:]])
        self.prior = [p.detach().clone() for p in self.parameters()]

    def objective(self, x: Tensor, y: Tensor, T: int, lam: float) -> Tensor:
        """Return linear loss plus KL/λ; with sign units only its gradient is meaningful."""
        a, log_prob = self.hidden(x, T)
        mean, deviation = moments(a, self.weights[-1], self.biases[-1])
        loss = 0.5 * (1 - y * torch.erf(mean / deviation / 2**0.5).squeeze(-1))  # (T, B)
        if self.activation == "sign":
            loss = loss + loss.detach() * log_prob
        return loss.mean() + self.kl() / lam

    def hidden(self, x: Tensor, T: int) -> tuple[Tensor, Tensor]:
        """Return T samples of the last hidden layer, and log P(signs) if its units are signs."""
        a, log_prob = x.unsqueeze(0), torch.zeros(())
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            mean, deviation = moments(a, weight, bias)
            shape = (T, *mean.shape[1:])
            if self.activation == "sign":
                p = (0.5 * (1 + torch.erf(mean / deviation / 2**0.5))).expand(shape)
                a = 2 * torch.bernoulli(p.detach()) - 1
                q = torch.where(a > 0, p, 1 - p)
                log_prob = log_prob + torch.log(q).sum(-1)
            else:
                a = _PATHS[self.activation](mean + deviation * torch.randn(shape))
        return a, log_prob

    def kl(self) -> Tensor:
        """Return KL(Q|P) at unit variance."""
        pairs = zip(self.parameters(), self.prior, strict=True)
        return sum((0.5 * (p - q).square().sum() for p, q in pairs), torch.zeros(()))


def moments(a: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the pre-activations."""
    return linear(a, weight, bias), (a.square().sum(-1, keepdim=True) + 1).sqrt()


Objective = Callable[[Tensor, Tensor], Tensor]


def bayesian_torch(case: Case) -> tuple[nn.Module, Objective]:
    """Return a network made by `dnn_to_bnn`, and the objective of its documentation."""
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn, get_kl_loss

    network = nn.Sequential(*_layers(case, nn.Linear))
    chosen = {"prior_mu": 0.0, "prior_sigma": 1.0, "type": "Reparameterization"}
    first = {"posterior_mu_init": 0.0, "posterior_rho_init": -3.0, "moped_enable": False}
    dnn_to_bnn(network, chosen | first)
    return network, lambda x, y: _risk(network, x, y, case.T) + get_kl_loss(network) / N


def blitz(case: Case) -> tuple[nn.Module, Objective]:
    """Return a network of `BayesianLinear`, and its `sample_elbo`."""
    from blitz.modules import BayesianLinear
    from blitz.utils import variational_estimator

    class Network(nn.Sequential):
        """A class of its own, since the decorator adds methods to it."""

    network = variational_estimator(Network)(*_layers(case, BayesianLinear))
    elbo = lambda x, y: network.sample_elbo(x, _targets(y), cross_entropy, case.T, 1 / N)
    return network, elbo


def torchbnn(case: Case) -> tuple[nn.Module, Objective]:
    """Return a network of `BayesLinear`, with `BKLLoss`."""
    from torchbnn import BayesLinear, BKLLoss

    network = nn.Sequential(*_layers(case, lambda d, e: BayesLinear(0, 0.1, d, e)))
    kl = BKLLoss(reduction="sum")
    return network, lambda x, y: _risk(network, x, y, case.T) + kl(network) / N


PEERS = {
    "bayesian-torch": bayesian_torch,
    "blitz-bayesian-pytorch": blitz,
    "torchbnn": torchbnn,
}


def beside(package: str, case: Case) -> dict[str, Entrant]:
    """Return the engine's step and that of another package, used as published.

    Their Bayesian layers draw weights that a batch shares, so a step with T samples makes T passes.
    The engine draws units for every example. Networks, batches, T, learned scales and Adam are the
    same.
    """
    try:
        name = f"{package} {version(package)}"
    except PackageNotFoundError:
        raise MissingError(f"{package} is not installed") from None
    ours = dense_steps(case)
    if not ours:
        raise MissingError("the native engine is not built")
    network, objective = PEERS[package](case)
    return {**ours, name: Entrant(adam_step(network, objective, case, *case.data()))}


def _layers(case: Case, linear: Callable[[int, int], nn.Module]) -> list[nn.Module]:
    """Return linear layers with relus in between."""
    layers = [[linear(d, e), nn.ReLU()] for d, e in pairwise(case.widths)]
    return [layer for pair in layers for layer in pair][:-1]


def _risk(network: nn.Module, x: Tensor, y: Tensor, T: int) -> Tensor:
    """Return the log loss of the mean of T passes."""
    mean = torch.stack([network(x) for _ in range(T)]).mean(0)
    return cross_entropy(mean, _targets(y))


def _targets(y: Tensor) -> Tensor:
    """Return 0 or 1 for labels −1 or +1, in a column."""
    return ((y + 1) / 2).unsqueeze(-1)
