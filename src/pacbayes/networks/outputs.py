r"""Networks with any output activation: f_θ(x) = A(w·η(x) + b), aggregated over the last layer.

    I(a) = ∫ A(w·a + b) dQ(w, b),

for elementwise A and vector outputs, as in Section 3 of the paper ("general stochastic networks").
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes.data.foreign import ask
from pacbayes.networks.bodies import Body, Sampled
from pacbayes.networks.draws import Draw, estimate
from pacbayes.networks.expectations import ACTIVATIONS, OutputActivation
from pacbayes.networks.gaussian import digest_outside, digest_prior
from pacbayes.networks.layers import GaussianLinear

__all__ = ["OutputNetwork"]


class OutputNetwork(nn.Module):
    """A body and a Gaussian last layer with an elementwise activation, integrated.

    Args:
        body: draws activations; a body of `networks.bodies` or any module, as for `Network`.
        layer: the Gaussian last layer, with any number of outputs.
        activation: a name (identity, relu, probit, erf, sigmoid, tanh) or one of your own.
    """

    def __init__(
        self, body: nn.Module, layer: GaussianLinear, activation: str | OutputActivation
    ) -> None:
        super().__init__()
        self.body: Body = body if isinstance(body, Body) else Sampled(body)
        self.layer = layer
        if isinstance(activation, str) and activation not in ACTIVATIONS:
            names = ", ".join(ACTIVATIONS)
            raise ValueError(f"activation must be one of {names}, got {activation!r}")
        known = ACTIVATIONS[activation] if isinstance(activation, str) else activation
        self.activation: OutputActivation = known
        self._sealed: tuple[str, str] | None = None

    def seal_prior(self) -> None:
        """Record prior and state outside Q when data are first seen; refuse later changes."""
        now = digest_prior(self), digest_outside(self)
        if now != (self._sealed or now):
            raise ValueError(
                "the prior, or state outside the posterior, changed after the network first saw "
                "data; build a new network"
            )
        self._sealed = now

    def moments(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and deviation of the last pre-activations, (…, outputs) both."""
        mean, deviation = self.layer.moments(a)
        return mean, deviation.expand_as(mean)

    def draw(self, x: Tensor, T: int) -> Draw:
        """Draw I(a) at T draws of the body, (T, B, outputs)."""
        if self._sealed is None:
            self.seal_prior()
        a = self.body.draw(x, 1 if self.body.freshness == "exact" else T)
        log_prob = a.log_prob.unsqueeze(-1) if a.log_prob.dim() else a.log_prob
        return Draw(ask(self.activation.expectation, *self.moments(a.value)), log_prob)

    def forward(self, x: Tensor, T: int) -> Tensor:
        """F̂_Q(x), the mean over T draws, (B, outputs), with an unbiased gradient."""
        return estimate(self.draw(x, T)).mean(0)

    @torch.no_grad()
    def moments_with(
        self, x: Tensor, T: int, generator: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the same moments at T draws of the body by numpy's generator."""
        if self._sealed is None:
            self.seal_prior()
        return self.moments(self.body.draw_with(x, T, generator))
