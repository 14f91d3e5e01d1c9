"""Contenders for certificates, predictions and `fit`."""

from __future__ import annotations

import warnings

import torch

from pacbayes.bench.steps import PAPER_WIDTHS, examples
from pacbayes.bench.turns import Entrant, MissingError
from pacbayes.choices import Activation, Predictor
from pacbayes.engine.evaluation import NativeSampler
from pacbayes.engine.library import available
from pacbayes.networks.architecture import dense_network
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import draws_key
from pacbayes.networks.predictors import decide
from pacbayes.networks.risk import keyed_risk
from pacbayes.networks.sampler import Sampler, TorchSampler

__all__ = ["certificates", "fits", "predictions"]

DRAWS = 100


def certificates(
    activation: Activation, classes: int = 2, *, count: int = 2000, few: int = 200
) -> dict[str, Entrant]:
    """Return the sampling of a certificate's risk: 100 draws, by the engine and by PyTorch.

    Args:
        count: examples for the engine.
        few: examples for PyTorch, whose time is scaled to the others.
    """
    network = _network(activation, classes)
    x, y = examples(count, PAPER_WIDTHS[0], classes)
    key = draws_key(network, x, y)

    def risk(sampler: Sampler, n: int) -> Entrant:
        run = lambda i: keyed_risk(network, x[:n], y[:n], DRAWS, key, sampler)
        return Entrant(run, count / n)

    return {
        "native": risk(_native(network), count),
        "torch": risk(TorchSampler(network), few),
    }


def predictions(predictor: Predictor, *, count: int = 2000, few: int = 200) -> dict[str, Entrant]:
    """Return decisions on examples, by the engine and by PyTorch; a vote has 100 draws."""
    network = _network("relu", 2)
    x = examples(count, PAPER_WIDTHS[0])[0].double()

    def decisions(sampler: Sampler, n: int) -> Entrant:
        run = lambda i: decide(network, predictor, x[:n], seed=0, samples=DRAWS, sampler=sampler)
        return Entrant(run, count / n)

    return {
        "native": decisions(_native(network), count),
        "torch": decisions(TorchSampler(network), few),
    }


def _network(activation: Activation, classes: int) -> Network:
    """Return the paper's network with learned scales, at random weights near the prior."""
    torch.manual_seed(0)
    widths = PAPER_WIDTHS[1:-1]
    made = dense_network(PAPER_WIDTHS[0], widths, activation, classes=classes, learned_scale=True)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return made.double()


def _native(network: Network) -> NativeSampler:
    if not available():
        raise MissingError("the native engine is not built")
    return NativeSampler(network)


def fits(rows: int = 20_000) -> dict[str, Entrant]:
    """Return `fit` of our classifier and of scikit-learn's, on a table of ten columns."""
    from sklearn.datasets import make_classification
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    from pacbayes.sklearn import PACBayesClassifier

    x, y = make_classification(rows, 10, random_state=0)

    def theirs(i: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # after the default of 200 epochs
            MLPClassifier(random_state=0).fit(x, y)

    return {
        "PACBayesClassifier": Entrant(lambda i: PACBayesClassifier(random_state=0).fit(x, y)),
        "MLPClassifier": Entrant(theirs),
    }
