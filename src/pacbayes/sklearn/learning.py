"""Train a classifier's network: the prior on its own examples, then the posterior."""

from __future__ import annotations

import sys

from torch import Tensor

from pacbayes.folders.blueprint import Blueprint
from pacbayes.networks.network import Network
from pacbayes.settings import Settings
from pacbayes.training.loop import Loop
from pacbayes.training.trainer import Trainer

__all__ = ["learn_prior", "train_posterior"]


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
