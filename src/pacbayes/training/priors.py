"""Data-dependent priors, learned from a part of the data that the bound never sees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.data.augmentation import image_side, moved_images
from pacbayes.networks.architecture import build_network
from pacbayes.networks.gaussian import gaussians
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.randomness import stream
from pacbayes.settings import Settings
from pacbayes.training.learning import augmented
from pacbayes.training.trainer import Trainer

__all__ = ["Teacher", "as_prior", "split"]

Indices = NDArray[np.int64]
_LOG_LOSS = 0.7  # fraction of the run on −ln P(label), which learns faster than the bounded loss


def split(
    n: int, fraction: float, seed: int, groups: NDArray[Any] | None = None
) -> tuple[Indices, Indices]:
    """Split n examples into those the prior learns from and the bound set, both in order.

    Args:
        groups: which group each example belongs to; groups are split, and go to one side whole.
    """
    if groups is not None:
        names, unit = np.unique(groups, return_inverse=True)
        own = np.isin(unit, split(len(names), fraction, seed)[0])
        return np.flatnonzero(own), np.flatnonzero(~own)
    count = round(fraction * n)
    if not 0 < count <= n - 8:
        raise ValueError(
            f"a prior fraction of {fraction:g} gives {count} of {n} examples to the prior and "
            f"{n - count} to the bound; each needs examples, the bound at least 8"
        )
    order = np.random.default_rng(stream(seed, "split")).permutation(n)
    return np.sort(order[:count]), np.sort(order[count:])


class Teacher(Trainer):
    """A run on the prior's own part of the data, without a KL, at the prior's scale.

    It trains the stochastic network itself, from weights of variance 2/inputs (He et al. 2015). It
    begins with the log loss, which learns faster, and ends with the linear loss, by which a
    posterior near this prior will be judged.

    Args:
        x, y: the prior's own part of the data, which alone may be augmented.
        settings: those of the run that the prior is for.
    """

    def __init__(self, x: Tensor, y: Tensor, settings: Settings, classes: int = 2) -> None:
        if settings.prior_augmentation == "images":
            image_side(x.shape[1])
        seed = stream(settings.seed, "prior training") >> 1
        alone = {
            "protocol": "fast",
            "objective": "fix-lambda",
            "lam": 1e15,
            "learned_scale": False,
            "kl_warmup": 0.0,
            "epochs": settings.prior_epochs,
            "evaluate_every": settings.prior_epochs,
            "learning_rate": settings.prior_rate,
            "seed": seed,
            # The native engine does not know the log loss of drawn weights.
            "engine": "torch" if settings.estimator == "reinforce" else settings.engine,
        }
        network = build_network(settings.model_copy(update=alone), x.shape[1], classes)
        _spread_out(network, seed)
        network.to(x.device)
        super().__init__(network, x, y, settings.model_copy(update=alone))

    def begin_epoch(self) -> None:
        """Augment the examples and choose the loss of the epoch."""
        s = self.settings
        augment = moved_images if s.prior_augmentation == "images" else None
        self.shown = augmented(self.x, augment, self.seed, self.epoch, s.epochs)
        self.log_loss = self.epoch / s.epochs < _LOG_LOSS


def as_prior(teacher: Teacher, settings: Settings) -> Network:
    """Build a run's network with prior and posterior at the teacher's current means."""
    classes, inputs = teacher.network.classes, teacher.x.shape[1]
    network = build_network(settings, inputs, classes)
    learned = gaussians(teacher.network)
    with torch.no_grad():
        for name, g in gaussians(network).items():
            g.mean.copy_(learned[name].mean)
            g.prior_mean.copy_(learned[name].mean)
    return network


def _spread_out(network: Network, seed: int) -> None:
    """Draw weights of variance 2/inputs and set biases to zero, to start learning from."""
    generator = torch.Generator().manual_seed(seed)
    layers = [layer for layer in network.modules() if isinstance(layer, GaussianLinear)]
    with torch.no_grad():
        for layer in layers:
            deviation = math.sqrt(2 / layer.weight.mean.shape[1])
            layer.weight.mean.normal_(0, deviation, generator=generator)
            layer.bias.mean.zero_()
