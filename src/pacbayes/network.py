"""A signed-output network: a body that draws activations and a head that makes them an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import get_args

from torch import Tensor, nn

from pacbayes import heads, hidden
from pacbayes.bodies import Body, Dense, Deterministic, Freshness, Sampled
from pacbayes.choices import Activation, Estimator
from pacbayes.draws import Draw, estimate, leave_one_out, no_baseline
from pacbayes.gaussian import digest_outside
from pacbayes.heads import Head
from pacbayes.layers import GaussianLinear
from pacbayes.randomness import seeded
from pacbayes.settings import Settings

__all__ = ["Network", "build_network", "dense_network"]

Baseline = Callable[[Tensor], Tensor | float]


class Network(nn.Module):
    """f_θ(x) = sign(w·η(x) + b), θ ~ Q: the paper's signed-output network on any body.

    Args:
        body: what draws the activations η: a body of `pacbayes.bodies`, or any other module that
            returns activations (B, d), which is then called anew for every sample.
        layer: the Gaussian last layer, with one output.
        head: how the last sign is treated; aggregated unless told otherwise.
        baseline: control variate for what was sampled without a path.
    """

    def __init__(
        self,
        body: nn.Module,
        layer: GaussianLinear,
        head: Head = heads.aggregated,
        baseline: Baseline = no_baseline,
    ) -> None:
        super().__init__()
        self.body: Body = body if isinstance(body, Body) else Sampled(body)
        self.layer = layer
        self.head = head
        self.baseline = baseline
        self._outside = digest_outside(self)

    def refuse_changed_state(self) -> None:
        """Refuse state outside Q that is no longer what it was when the network was built."""
        if digest_outside(self) != self._outside:
            raise ValueError(
                "parameters or buffers outside the posterior have changed since the network was "
                "built (batch-norm statistics?); what predicts must be part of Q or frozen"
            )

    @property
    def freshness(self) -> Freshness:
        """Whether an output is exact, or drawn anew for every example, or shared by a batch."""
        exact_head = self.head in (heads.aggregated, heads.differenced)
        if self.body.freshness == "exact" and not exact_head:
            return "per-example"
        return self.body.freshness

    def draw(self, x: Tensor, T: int) -> Draw:
        """T draws of the output for each example, (T, B)."""
        if T < 1:
            raise ValueError(f"the number of samples must be at least 1, got {T}")
        return self.head(self.layer, self.body.draw(x, 1 if self.freshness == "exact" else T))

    def forward(self, x: Tensor, T: int) -> Tensor:
        """F̂(x), the mean over T draws, (B,): right value, and a gradient by the chosen rules."""
        draw = self.draw(x, T)
        return estimate(draw, self.baseline(draw.value)).mean(0)


def dense_network(
    inputs: int,
    widths: Sequence[int] = (100, 100, 100),
    activation: Activation = "relu",
    *,
    estimator: Estimator = "leave-one-out",
    scale: float = 1.0,
    learned_scale: bool = False,
) -> Network:
    """The paper's fully connected network, d₀–d₁–…–1; no widths give the signed linear classifier.

    Args:
        estimator: gradient of sign units; relu and sigmoid are pathwise. The two forms of
            `reinforce` are no rule of a layer: the training loop draws weights for them.
        scale: prior deviation of every weight and bias.
        learned_scale: whether the posterior's deviations are trained.
    """
    if min(inputs, *widths, 1) < 1:
        raise ValueError(f"widths must be positive, got {inputs} and {tuple(widths)}")
    rules, head, baseline = _rules(activation, estimator, len(widths))
    ends = [inputs, *widths, 1]
    *layers, last = (
        GaussianLinear(d, e, scale=scale, learned_scale=learned_scale) for d, e in pairwise(ends)
    )
    body: Body = Dense(layers, rules) if layers else Deterministic(nn.Identity())
    return Network(body, last, head, baseline)


def build_network(settings: Settings, inputs: int) -> Network:
    """The dense network that settings describe, its prior drawn from their seed."""
    with seeded(settings.seed, "prior"):
        return dense_network(
            inputs,
            settings.widths,
            settings.activation,
            estimator=settings.estimator,
            scale=settings.prior_scale,
            learned_scale=settings.learned_scale,
        )


def _rules(
    activation: Activation, estimator: Estimator, depth: int
) -> tuple[list[hidden.Rule], Head, Baseline]:
    """The table of rules: hidden layers, head and baseline of every activation and estimator."""
    if activation == "relu":
        return [hidden.relu] * depth, heads.aggregated, no_baseline
    if activation == "sigmoid":
        return [hidden.sigmoid] * depth, heads.aggregated, no_baseline
    if activation != "sign":
        raise ValueError(f"activation must be one of {get_args(Activation)}, got {activation!r}")
    if depth == 0 or estimator in ("marginal", "reinforce", "reinforce-per-example"):
        return [hidden.sign] * depth, heads.aggregated, no_baseline
    if estimator == "leave-one-out":
        return [hidden.sign] * depth, heads.aggregated, leave_one_out
    if estimator == "straight-through":
        return [hidden.sign_straight] * depth, heads.aggregated, no_baseline
    if estimator == "local-expectation":
        below = [hidden.sign] * (depth - 1)
        baseline: Baseline = leave_one_out if below else no_baseline
        return [*below, hidden.sign_straight], heads.differenced, baseline
    raise ValueError(f"estimator must be one of {get_args(Estimator)}, got {estimator!r}")
