"""A stochastic network: a body that draws activations and a head that turns them into an output."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.special import ndtr

from pacbayes.data.tasks import Task, task_of
from pacbayes.networks import activations, heads
from pacbayes.networks.activations import Draw, estimate, no_baseline
from pacbayes.networks.bodies import Body, Dense, Freshness, Sampled
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.families.rotated import Rotated
from pacbayes.networks.heads import Head
from pacbayes.networks.posterior import digest_prior, names_of_posterior, sealed

if TYPE_CHECKING:
    from pacbayes.networks.architecture import DenseArchitecture

__all__ = ["LARGEST_SUM", "Baseline", "Network", "exact_aggregate", "first_layer", "without_basis"]

Baseline = Callable[[Tensor], Tensor | float]


class Network(nn.Module):
    """f_θ(x) = sign(w·η(x) + b), θ ~ Q: the paper's signed-output network on any body.

    Args:
        body: draws the activations η: a body of `networks.bodies`, or any other module that returns
            activations (B, d), which is then called once for every sample.
        layer: the Gaussian last layer: one output for two classes, or a score for each of k > 2.
        head: how the last sign, or the largest score, is treated; aggregated by default.
        baseline: control variate for samples without a path.
        architecture: what the network was built from, if it can be rebuilt; the native engine
            trains only such networks.
    """

    def __init__(
        self,
        body: nn.Module,
        layer: GaussianLinear,
        head: Head = heads.aggregated,
        baseline: Baseline = no_baseline,
        *,
        architecture: DenseArchitecture | None = None,
    ) -> None:
        super().__init__()
        self.body: Body = body if isinstance(body, Body) else Sampled(body)
        self.layer = layer
        outputs = layer.bias.mean.shape[0]
        if outputs == 2:
            raise ValueError("two classes take one output, more take one each; got 2 outputs")
        self.task: Task = task_of(max(2, outputs))
        if outputs > 1 and head is not heads.aggregated:
            raise ValueError(f"only the aggregated head fits {outputs} outputs")
        self.head, self.baseline = head, baseline
        self.architecture = architecture
        self._drawn_by: tuple[int, str] | None = None  # seed, and digest of the prior it drew
        self._sealed: tuple[str, str] | None = None  # prior, and state outside Q

    def seal_prior(self) -> None:
        """Record prior and state outside Q when data are first seen; refuse later changes."""
        self._sealed = sealed(self, self._sealed)

    @property
    def prior_seed(self) -> int | None:
        """Seed that the prior was drawn from, for which a certificate pays; None for other priors.

        A prior that was changed is no longer what its seed draws.
        """
        if self._drawn_by is None or self._drawn_by[1] != digest_prior(self):
            return None
        return self._drawn_by[0]

    def set_prior_seed(self, seed: int | None) -> None:
        """Record that the prior, as it is now, was drawn from a seed."""
        self._drawn_by = None if seed is None else (int(seed), digest_prior(self))

    def prior_state(self) -> dict[str, Tensor]:
        """Return everything that predicts or bounds and is not Q: the prior, and what is frozen."""
        own = names_of_posterior(self)
        return {name: t for name, t in self.state_dict().items() if name not in own}

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.task.outputs

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.task.classes

    def loss(self, value: Tensor, y: Tensor) -> Tensor:
        """Return P(the randomised classifier errs) at an output, one loss per label."""
        return self.task.loss(value, y.to(value.device))

    @property
    def freshness(self) -> Freshness:
        """Whether an output is exact, drawn anew for every example, or shared by a batch."""
        exact = self.head in (heads.aggregated, heads.differenced)
        if self.body.freshness == "exact" and not exact:
            return "per-example"
        return self.body.freshness

    def draw(self, x: Tensor, T: int) -> Draw:
        """Draw the output T times for each example, (T, B) or (T, B, k)."""
        return self.head(self.layer, self._activations(x, T))

    def _activations(self, x: Tensor, T: int) -> Draw:
        if T < 1:
            raise ValueError(f"the number of samples must be at least 1, got {T}")
        if self._sealed is None:  # every look at data counts, with gradients or without
            self.seal_prior()
        return self.body.draw(x, 1 if self.freshness == "exact" else T)

    def draw_with(self, x: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        """Return the aggregated output at T draws by numpy's generator, (T, B) or (T, B, k).

        The last layer is integrated whatever the head: another head samples the same classifier.
        """
        if self._sealed is None:
            self.seal_prior()
        a = self.body.draw_with(x, T, generator)
        return heads.aggregated(self.layer, Draw(a, a.new_zeros(()))).value

    def forward(self, x: Tensor, T: int) -> Tensor:
        """F̂(x), the mean over T draws, (B,) or (B, k), with the chosen gradient estimator."""
        draw = self.draw(x, T)
        return estimate(draw, self.baseline(draw.value)).mean(0)

    def label_probability(self, x: Tensor, y: Tensor, T: int) -> Tensor:
        """Return entry y of `forward` for k > 2 classes, (B,): all that a training step needs."""
        draw = heads.of_label(self.layer, self._activations(x, T), y)
        return estimate(draw, self.baseline(draw.value)).mean(0)


LARGEST_SUM = 2**24  # conditional probabilities in one layer's table, about 128 MB in float64


def first_layer(network: Network) -> GaussianLinear:
    """Return the Gaussian layer that sees a network's inputs, or its body's activations."""
    return network.body.layers[0] if isinstance(network.body, Dense) else network.layer


def without_basis(network: Network) -> Network:
    """Return the same Q and P as diagonal Gaussians, for inputs that the first layer has `seen`.

    It shares all parameters, so that whoever trains the one trains the other. A network without a
    basis is returned as it is.
    """
    first = first_layer(network)
    if not isinstance(first.weight, Rotated):
        return network
    layer = GaussianLinear(0, 0)  # whose tensors are replaced
    layer.weight, layer.bias = first.weight.as_diagonal(), first.bias
    body, last, architecture = network.body, network.layer, network.architecture
    if isinstance(body, Dense):
        body = Dense([layer, *list(body.layers)[1:]], body.rules)
    else:
        last = layer
    if architecture is not None:
        architecture = architecture.without_basis()
    return Network(body, last, network.head, network.baseline, architecture=architecture)


def exact_aggregate(network: Network, x: Tensor) -> Tensor:
    r"""Return F_Q(x), (B,), or every class's probability, (B, k), summed over all activations.

        F_Q(x) = Σ_{a₁} … Σ_{a_{L−1}} erf(…a_{L−1}…) Q̃_{L−1}(a_{L−1}|a_{L−2}) … Q̃₁(a₁|x)

    (eq. iterated_integral).

    It is differentiable, so it is the ground truth for gradients too. The cost grows as
    2^(d_l + d_{l+1}). Without hidden layers nothing is summed.

    Raises:
        ValueError: an activation is not sign, or the sum is too large.
    """
    a, weight = x, None  # activations (states, d) and their probabilities (B, states)
    if isinstance(network.body, Dense):
        _refuse(network.body, len(x))
        for layer in network.body.layers:
            states = sign_vectors(layer.bias.mean.shape[0], x)  # (2^d, d)
            mean, deviation = layer.moments(a)
            up = ndtr(mean / deviation).unsqueeze(-2)  # (B or states below, 1, d)
            conditional = torch.where(states > 0, up, 1 - up).prod(-1)  # (…, 2^d)
            weight = conditional if weight is None else weight @ conditional
            a = states
    elif network.freshness != "exact":
        raise ValueError(
            "an exact sum needs a dense sign network or a deterministic body; sample instead"
        )
    else:
        a = network.body.draw(x, 1).value.squeeze(0)
    output = heads.aggregated(network.layer, Draw(a.unsqueeze(0), a.new_zeros(()))).value[0]
    return output if weight is None else weight @ output


def sign_vectors(d: int, like: Tensor) -> Tensor:
    """All of {−1, +1}^d, (2^d, d)."""
    return like.new_tensor(list(itertools.product((-1.0, 1.0), repeat=d)))


def _refuse(body: Dense, batch: int) -> None:
    if not set(body.rules) <= {activations.sign, activations.sign_straight}:
        raise ValueError("only sign activations can be summed exactly; sample instead")
    widths = [layer.bias.mean.shape[0] for layer in body.layers]
    rows = [batch, *(2**d for d in widths[:-1])]
    largest = max(r * 2**d * d for r, d in zip(rows, widths, strict=True))
    if largest > LARGEST_SUM:
        raise ValueError(
            f"the exact sum over widths {widths} for {batch} examples needs {largest} numbers, "
            f"more than the limit of {LARGEST_SUM}; sample instead"
        )
