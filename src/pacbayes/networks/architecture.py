"""Architectures: what a network is, in numbers and names, from which it can be built again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, get_args

from torch import nn

from pacbayes.choices import Activation, Basis, Estimator
from pacbayes.data.tasks import Task, task_of
from pacbayes.networks import activations, heads
from pacbayes.networks.activations import Rule, leave_one_out, no_baseline
from pacbayes.networks.bodies import Body, Dense, Deterministic
from pacbayes.networks.families.diagonal import Gaussian, GaussianLinear
from pacbayes.networks.families.rotated import Rotated, Smoothness
from pacbayes.networks.heads import Head
from pacbayes.networks.network import Baseline, Network
from pacbayes.randomness import seeded
from pacbayes.settings import Settings

__all__ = ["ESTIMATORS_OF_MANY", "DenseArchitecture", "build_network", "dense_network"]


ESTIMATORS_OF_MANY: tuple[Estimator, ...] = ("marginal", "leave-one-out", "straight-through")


class _Estimation(NamedTuple):
    """How a network samples and differentiates: rules of hidden layers, head and baseline."""

    below: Rule  # every hidden layer but the last
    last: Rule
    head: Head
    baseline: Baseline


_PATHWISE = {"relu": activations.relu, "sigmoid": activations.sigmoid}
_MARGINAL = _Estimation(activations.sign, activations.sign, heads.aggregated, no_baseline)
_STRAIGHT = activations.sign_straight
_SIGN: dict[Estimator, _Estimation] = {
    "marginal": _MARGINAL,
    "reinforce": _MARGINAL,  # these two draw weights in training (`networks.predictors`)
    "reinforce-per-example": _MARGINAL,
    "leave-one-out": _MARGINAL._replace(baseline=leave_one_out),
    "straight-through": _Estimation(_STRAIGHT, _STRAIGHT, heads.aggregated, no_baseline),
    "local-expectation": _Estimation(activations.sign, _STRAIGHT, heads.differenced, leave_one_out),
}


@dataclass(frozen=True)
class DenseArchitecture:
    """The paper's fully connected network, d₀–d₁–…–1; no widths give a signed linear classifier.

    Attributes:
        inputs: features of an example.
        widths: hidden units, layer by layer.
        classes: number of classes; more than two take an output each.
        estimator: gradient of sign units; relu and sigmoid are pathwise. The two forms of
            `reinforce` are not rules of a layer: the training loop draws weights for them.
        scale: prior standard deviation of every weight and bias.
        learned_scale: whether the posterior's standard deviations are trained.
        basis: in which Q over the first layer's weights is diagonal: that of the inputs, or the
            eigenbasis of those that training sees.
        smoothness: that the prior of the first layer expects of images.
    """

    inputs: int
    widths: tuple[int, ...] = (100, 100, 100)
    activation: Activation = "relu"
    classes: int = 2
    estimator: Estimator = "leave-one-out"
    scale: float = 1.0
    learned_scale: bool = False
    basis: Basis = "none"
    smoothness: Smoothness | None = None

    def __post_init__(self) -> None:
        if min(self.inputs, *self.widths, 1) < 1:
            raise ValueError(f"widths must be positive, got {self.inputs} and {self.widths}")
        for name, value, choices in (
            ("activation", self.activation, get_args(Activation)),
            ("estimator", self.estimator, get_args(Estimator)),
            ("basis", self.basis, get_args(Basis)),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        task_of(self.classes)
        if self.activation == "sign" and self.classes > 2:
            self._check_estimator_of_many()

    def _check_estimator_of_many(self) -> None:
        """Refuse estimators that sum over a unit's values, an integral each with many classes."""
        if self.estimator not in ESTIMATORS_OF_MANY:
            raise ValueError(
                f"{self.estimator} takes two classes, got {self.classes}; "
                f"estimator must be one of {', '.join(ESTIMATORS_OF_MANY)}"
            )

    @classmethod
    def of(
        cls,
        settings: Settings,
        inputs: int,
        classes: int = 2,
        shape: tuple[int, ...] | None = None,
    ) -> DenseArchitecture:
        """Return the architecture that settings describe, for data of a given size and shape."""
        return cls(
            inputs,
            settings.widths,
            settings.activation,
            classes,
            settings.estimator,
            settings.prior_scale,
            settings.learned_scale,
            settings.basis,
            _smoothness(settings.prior_smooth, inputs, shape),
        )

    @property
    def turned(self) -> bool:
        """Whether Q or P of the first layer is diagonal in another basis than that of inputs."""
        return self.basis != "none" or self.smoothness is not None

    def without_basis(self) -> DenseArchitecture:
        """Return the architecture of the same network for inputs in its basis."""
        return replace(self, basis="none", smoothness=None)

    @property
    def task(self) -> Task:
        """The task: two classes or k."""
        return task_of(self.classes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of every layer, inputs and outputs included."""
        return (self.inputs, *self.widths, self.task.outputs)

    @property
    def _estimation(self) -> tuple[list[Rule], Head, Baseline]:
        """Rules of the hidden layers, head and baseline."""
        depth = len(self.widths)
        if self.activation in _PATHWISE:
            return [_PATHWISE[self.activation]] * depth, heads.aggregated, no_baseline
        chosen = _SIGN[self.estimator] if depth else _MARGINAL
        rules = [chosen.below] * (depth - 1) + [chosen.last] * min(depth, 1)
        summed = chosen.head is heads.differenced and depth == 1  # nothing is left to score
        return rules, chosen.head, no_baseline if summed else chosen.baseline

    def build(self) -> Network:
        """Build the network, its prior's means drawn from torch's generator."""
        *layers, last = (
            GaussianLinear(d, e, scale=self.scale, learned_scale=self.learned_scale)
            for d, e in pairwise(self.sizes)
        )
        if self.turned:
            first = layers[0] if layers else last
            first.weight = Rotated(first.weight, self.smoothness)
        rules, head, baseline = self._estimation
        body: Body = Dense(layers, rules) if layers else Deterministic(nn.Identity())
        return Network(body, last, head, baseline, architecture=self)

    @property
    def _families(self) -> list[type[Gaussian]]:
        """Families of the layers' weights."""
        return [Rotated if self.turned else Gaussian, *[Gaussian] * len(self.widths)]

    def describes(self, network: Network) -> bool:
        """Return whether a network still is what was built: layers, rules, head and baseline."""
        rules, head, baseline = self._estimation
        hidden = network.body.layers if isinstance(network.body, Dense) else []
        layers = [*hidden, network.layer]
        shapes = [(layer.weight.learned_scale, *layer.weight.mean.shape) for layer in layers]
        return (
            shapes == [(self.learned_scale, e, d) for d, e in pairwise(self.sizes)]
            and [type(layer.weight) for layer in layers] == self._families
            and (bool(self.widths) or _is_identity(network.body))
            and getattr(network.body, "rules", []) == rules
            and network.head is head
            and network.baseline is baseline
        )


def _is_identity(body: nn.Module) -> bool:
    return isinstance(body, Deterministic) and type(body.module) is nn.Identity


def dense_network(
    inputs: int,
    widths: Sequence[int] = (100, 100, 100),
    activation: Activation = "relu",
    *,
    classes: int = 2,
    estimator: Estimator = "leave-one-out",
    scale: float = 1.0,
    learned_scale: bool = False,
) -> Network:
    """Build the paper's fully connected network; the arguments are `DenseArchitecture`'s."""
    architecture = DenseArchitecture(
        inputs, tuple(widths), activation, classes, estimator, scale, learned_scale
    )
    return architecture.build()


def _smoothness(power: float, inputs: int, shape: tuple[int, ...] | None) -> Smoothness | None:
    """Return what a prior expects of images, (height, width) or (channels, height, width)."""
    if not power:
        return None
    whole = (1, *shape) if shape is not None and len(shape) == 2 else tuple(shape or ())
    if len(whole) != 3 or math.prod(whole) != inputs:
        raise ValueError(
            f"a smooth prior needs images, got {inputs} features without their places; leave out "
            "--prior-smooth (prior_smooth=)"
        )
    return Smoothness(whole, power)


def build_network(
    settings: Settings, inputs: int, classes: int = 2, shape: tuple[int, ...] | None = None
) -> Network:
    """Build the dense network that settings describe, its prior drawn from their seed.

    Args:
        shape: of an image, for a smooth prior.
    """
    with seeded(settings.seed, "prior"):
        network = DenseArchitecture.of(settings, inputs, classes, shape).build()
    network.set_prior_seed(None if settings.prior_fraction else settings.seed)
    return network
