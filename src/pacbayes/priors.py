"""Priors learned from a part of the data that the bound never sees."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.gaussian import Gaussian
from pacbayes.network import Network, build_network
from pacbayes.randomness import stream
from pacbayes.settings import Settings
from pacbayes.training import Trainer

__all__ = ["learn_prior", "split"]

Indices = NDArray[np.int64]


def split(n: int, fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Which of n examples the prior learns from, and which are the bound set; both in order."""
    count = round(fraction * n)
    if not 0 < count <= n - 8:
        raise ValueError(
            f"a prior fraction of {fraction:g} leaves {count} of {n} examples to the prior and "
            f"{n - count} to the bound, which needs 8"
        )
    order = np.random.default_rng(stream(seed, "split")).permutation(n)
    return np.sort(order[:count]), np.sort(order[count:])


def learn_prior(x: Tensor, y: Tensor, settings: Settings, classes: int = 2) -> Network:
    """A network whose prior has the means that training without a KL gives, at the prior's scale.

    The same loop as ever, on the linear loss of the stochastic network itself: what a posterior
    near this prior will be judged by.

    Args:
        x, y: the prior's own part of the data.
    """
    alone = settings.model_copy(
        update={
            "protocol": "fast",
            "objective": "fix-lambda",
            "lam": 1e15,
            "learned_scale": False,
            "kl_warmup": 0.0,
            "epochs": settings.prior_epochs,
            "evaluate_every": settings.prior_epochs,
            "learning_rate": settings.prior_rate,
            "seed": stream(settings.seed, "prior training") >> 1,
        }
    )
    teacher = build_network(alone.model_copy(update={"seed": settings.seed}), x.shape[1], classes)
    for _ in Trainer(teacher, x, y, alone).steps():
        pass
    network = build_network(settings, x.shape[1], classes)
    pairs = zip(_gaussians(network), _gaussians(teacher), strict=True)
    with torch.no_grad():
        for ours, learned in pairs:
            ours.mean.copy_(learned.mean)
            ours.prior_mean.copy_(learned.mean)
    return network


def _gaussians(network: Network) -> list[Gaussian]:
    return [m for m in network.modules() if isinstance(m, Gaussian)]
