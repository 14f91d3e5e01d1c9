"""Train a classifier's network: the prior, the posterior, and a temperature for probabilities."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor

from pacbayes.networks.network import Network
from pacbayes.settings import Settings
from pacbayes.training.blueprint import Blueprint
from pacbayes.training.loop import Loop
from pacbayes.training.trainer import Trainer

__all__ = ["learn_prior", "likeliest_temperature", "train_posterior"]

Array = NDArray[Any]


def learn_prior(x: Tensor, y: Tensor, blueprint: Blueprint, *, verbose: bool) -> Network:
    """Return a network whose prior learned from these examples; without any, a data-free one."""
    if not len(x):
        return blueprint.build()
    teacher = blueprint.teacher(x, y)
    _follow(teacher, "prior", verbose)
    return blueprint.as_prior(teacher)


def train_posterior(
    network: Network, x: Tensor, y: Tensor, settings: Settings, *, verbose: bool
) -> Trainer:
    """Train the posterior, and put that of the epoch with the best bound into the network."""
    trainer = Trainer(network, x, y, settings)
    _follow(trainer, "posterior", verbose)
    network.load_state_dict(network.state_dict() | trainer.best)
    return trainer


def _follow(trainer: Loop, what: str, verbose: bool) -> None:
    """Train to the end or until Ctrl-C, which keeps the best so far."""
    try:
        for progress in trainer.steps():
            if verbose and (e := progress.evaluation):
                line = f"{what}, epoch {e.epoch}: risk {e.risk:.4f}, KL {e.kl:.1f}"
                print(f"{line}, bound {e.bound:.4f}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"interrupted: keeping the {what} as it is", file=sys.stderr)


def likeliest_temperature(z: Array, index: Array) -> float:
    """Return the temperature at which scores fit the examples best (Guo et al. 2017).

    Args:
        z: scores, (n,) of the second of two classes or (n, k).
        index: the class of each example, (n,).
    """
    wide = np.stack([np.zeros_like(z), z], axis=1) if z.ndim == 1 else z
    size = float(np.abs(wide).mean()) or 1.0

    def surprise(log_t: float) -> float:
        log_p = log_softmax(wide / (size * np.exp(log_t)), axis=1)
        return -float(np.take_along_axis(log_p, index[:, None], 1).mean())

    return size * float(np.exp(minimize_scalar(surprise, bounds=(-4, 4), method="bounded").x))
