"""Training steps of other packages, as published: Bayesian layers for PyTorch.

Their layers draw weights that a batch shares, so a step with T samples makes T passes. The engine
draws units for every example. Networks, batches, T, learned scales and Adam are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from pacbayes.bench.steps import Case, N, adam_step, dense_steps
from pacbayes.bench.turns import Entrant, MissingError

__all__ = ["PEERS", "beside"]

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
    """Return the engine's step and that of another package."""
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
