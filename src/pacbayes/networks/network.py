"""A signed-output network: a body that draws activations and a head that makes them an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

import torch
from torch import Tensor, nn

from pacbayes.choices import Activation, Estimator
from pacbayes.networks import activations, heads, losses
from pacbayes.networks.bodies import Body, Dense, Deterministic, Freshness, Sampled
from pacbayes.networks.draws import Draw, estimate, leave_one_out, no_baseline
from pacbayes.networks.gaussian import digest_outside, digest_prior
from pacbayes.networks.heads import Head
from pacbayes.networks.layers import GaussianLinear
from pacbayes.randomness import seeded
from pacbayes.settings import Settings

__all__ = ["Network", "build_network", "dense_network"]

Baseline = Callable[[Tensor], Tensor | float]


class Network(nn.Module):
    """f_θ(x) = sign(w·η(x) + b), θ ~ Q: the paper's signed-output network on any body.

    Args:
        body: what draws the activations η: a body of `networks.bodies`, or any other module that
            returns activations (B, d), which is then called anew for every sample.
        layer: the Gaussian last layer, with one output, or with a score for each of k > 2 classes.
        head: how the last sign or the largest score is treated; aggregated unless told otherwise.
        baseline: control variate for what was sampled without a path.
    """

    def __init__(
        self,
        body: nn.Module,
        layer: GaussianLinear,
        head: Head | None = None,
        baseline: Baseline = no_baseline,
    ) -> None:
        super().__init__()
        self.body: Body = body if isinstance(body, Body) else Sampled(body)
        self.layer = layer
        if self.outputs == 2:
            raise ValueError("two classes take one output, more take one each; got 2 outputs")
        self.head = head or (heads.aggregated if self.outputs == 1 else heads.aggregated_classes)
        if (self.head is heads.aggregated_classes) != (self.outputs > 1):
            raise ValueError(f"the head does not fit {self.outputs} outputs")
        self.baseline = baseline
        self._at_first_look: tuple[str, str] | None = None  # prior, and state outside Q

    def look(self) -> None:
        """Data are about to be looked at: from now on prior and state outside Q must stay."""
        now = digest_prior(self), digest_outside(self)
        then = self._at_first_look or now
        if now[0] != then[0]:
            raise ValueError(
                "the prior is younger than the first look at data; for a prior learned elsewhere "
                "build a new network, fix its prior, then let it see its bound set"
            )
        if now[1] != then[1]:
            raise ValueError(
                "parameters or buffers outside the posterior have changed since the network first "
                "saw data (batch-norm statistics?); what predicts must be part of Q or frozen"
            )
        self._at_first_look = now

    @property
    def outputs(self) -> int:
        return self.layer.bias.mean.shape[0]

    @property
    def classes(self) -> int:
        return max(2, self.outputs)

    def loss(self, value: Tensor, y: Tensor) -> Tensor:
        """P(the randomised classifier errs) where its output is `value`: one loss per label."""
        return losses.linear(value, y) if self.outputs == 1 else losses.missed(value, y)

    def right(self, value: Tensor, y: Tensor) -> Tensor:
        """P(label), kept from zero: a loss divided by it has the gradient of −ln P(label)."""
        if self.outputs == 1:
            return (1 - losses.linear(value, y)).clamp(min=1e-6)
        return value.gather(-1, y.unsqueeze(-1)).squeeze(-1).clamp(min=1e-300)

    @property
    def freshness(self) -> Freshness:
        """Whether an output is exact, or drawn anew for every example, or shared by a batch."""
        exact = self.head in (heads.aggregated, heads.aggregated_classes, heads.differenced)
        if self.body.freshness == "exact" and not exact:
            return "per-example"
        return self.body.freshness

    def draw(self, x: Tensor, T: int) -> Draw:
        """T draws of the output for each example, (T, B) or (T, B, k)."""
        if T < 1:
            raise ValueError(f"the number of samples must be at least 1, got {T}")
        if self._at_first_look is None and torch.is_grad_enabled():
            self.look()  # somebody's own training has begun
        return self.head(self.layer, self.body.draw(x, 1 if self.freshness == "exact" else T))

    def forward(self, x: Tensor, T: int) -> Tensor:
        """F̂(x), the mean over T draws, (B,) or (B, k); its gradient is by the chosen rules."""
        draw = self.draw(x, T)
        return estimate(draw, self.baseline(draw.value)).mean(0)


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
    """The paper's fully connected network, d₀–d₁–…–1; no widths give the signed linear classifier.

    Args:
        classes: how many; more than two take an output each.
        estimator: gradient of sign units; relu and sigmoid are pathwise. The two forms of
            `reinforce` are no rule of a layer: the training loop draws weights for them.
        scale: prior deviation of every weight and bias.
        learned_scale: whether the posterior's deviations are trained.
    """
    if min(inputs, *widths, 1) < 1:
        raise ValueError(f"widths must be positive, got {inputs} and {tuple(widths)}")
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    rules, head, baseline = _rules(activation, estimator, len(widths))
    if classes > 2:
        if activation == "sign" and estimator not in _FOR_MANY_CLASSES:
            raise ValueError(
                f"{estimator} takes two classes, got {classes}; "
                f"estimator must be one of {', '.join(_FOR_MANY_CLASSES)}"
            )
        head = heads.aggregated_classes
    ends = [inputs, *widths, 1 if classes == 2 else classes]
    *layers, last = (
        GaussianLinear(d, e, scale=scale, learned_scale=learned_scale) for d, e in pairwise(ends)
    )
    body: Body = Dense(layers, rules) if layers else Deterministic(nn.Identity())
    return Network(body, last, head, baseline)


_FOR_MANY_CLASSES = ("marginal", "leave-one-out", "straight-through")


def build_network(settings: Settings, inputs: int, classes: int = 2) -> Network:
    """The dense network that settings describe, its prior drawn from their seed."""
    with seeded(settings.seed, "prior"):
        return dense_network(
            inputs,
            settings.widths,
            settings.activation,
            classes=classes,
            estimator=settings.estimator,
            scale=settings.prior_scale,
            learned_scale=settings.learned_scale,
        )


def _rules(
    activation: Activation, estimator: Estimator, depth: int
) -> tuple[list[activations.Rule], Head, Baseline]:
    """The table of rules: hidden layers, head and baseline of every activation and estimator."""
    if activation == "relu":
        return [activations.relu] * depth, heads.aggregated, no_baseline
    if activation == "sigmoid":
        return [activations.sigmoid] * depth, heads.aggregated, no_baseline
    if activation != "sign":
        raise ValueError(f"activation must be one of {get_args(Activation)}, got {activation!r}")
    if depth == 0 or estimator in ("marginal", "reinforce", "reinforce-per-example"):
        return [activations.sign] * depth, heads.aggregated, no_baseline
    if estimator == "leave-one-out":
        return [activations.sign] * depth, heads.aggregated, leave_one_out
    if estimator == "straight-through":
        return [activations.sign_straight] * depth, heads.aggregated, no_baseline
    if estimator == "local-expectation":
        below = [activations.sign] * (depth - 1)
        baseline: Baseline = leave_one_out if below else no_baseline
        return [*below, activations.sign_straight], heads.differenced, baseline
    raise ValueError(f"estimator must be one of {get_args(Estimator)}, got {estimator!r}")
