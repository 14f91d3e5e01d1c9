r"""Networks with any output activation: f_θ(x) = A(w·η(x) + b), aggregated over the last layer.

    I(a) = ∫ A(w·a + b) dQ(w, b),

for elementwise A and vector outputs, as in Section 3 of the paper ("general stochastic networks").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.special import ndtr

from pacbayes.data.foreign import ask
from pacbayes.networks.activations import Draw, estimate
from pacbayes.networks.bodies import Body, Sampled
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.posterior import sealed

__all__ = ["ACTIVATIONS", "OutputActivation", "OutputNetwork", "Strip"]

_REACH = 7.0
_GOAL = 1e-10
_MOST_POINTS = 4001
_TAIL = 2.6e-12  # at least 2·Φ(−7), which is 2.56e-12
_FAR = 7.0  # shifting further than this would not help


@dataclass(frozen=True)
class Strip:
    """A function is analytic, and at most `size`, where the imaginary part is at most `width`."""

    width: float
    size: float

    @property
    def squared(self) -> Strip:
        """The same strip, with the bound of the squared function."""
        return Strip(self.width, self.size**2)

    @property
    def error(self) -> float:
        """Return the proven error of an integral by quadrature, roundings included."""
        return _GOAL + (_TAIL + 1e-12) * self.size

    def step(self, deviation: float) -> float:
        """Return the step at which the trapezoidal rule errs by 1e-10."""
        a = min(self.width / deviation, _FAR)
        return math.tau * a / math.log1p(2 * self.size * math.exp(a * a / 2) / _GOAL)


@dataclass(frozen=True)
class OutputActivation:
    """An elementwise activation of the last layer.

    Attributes:
        function: A.
        strip: where A is analytic, and how large it is there; None if A is not.
        closed: E A(z) from mean and deviation, if there is a closed form.
        range: least and greatest value, if A is bounded: only then is there a certificate.
    """

    function: Callable[[Tensor], Tensor]
    strip: Strip | None = None
    closed: Callable[[Tensor, Tensor], Tensor] | None = None
    range: tuple[float, float] | None = None

    @property
    def error(self) -> float:
        """Return the proven error of `expectation`."""
        return self.strip.error if self.closed is None and self.strip else 1e-12

    def expectation(self, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return E A(z) for every output, with a gradient in mean and deviation."""
        if self.closed is not None:
            return self.closed(mean, deviation)
        return _integral(self.function, self._known(), mean, deviation)

    def square(self, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return E A(z)² for every output, with a gradient."""
        known = self._known().squared
        return _integral(lambda z: self.function(z).square(), known, mean, deviation)

    def _known(self) -> Strip:
        if self.strip is None:
            raise ValueError(
                "this activation has no closed form; give a strip in which it is analytic, such as "
                "Strip(width=1.0, size=2.0)"
            )
        return self.strip


def _integral(
    function: Callable[[Tensor], Tensor], strip: Strip, mean: Tensor, deviation: Tensor
) -> Tensor:
    h = strip.step(deviation.detach().max().clamp(min=1e-6).item())
    half = math.ceil(_REACH / h)
    if 2 * half + 1 > _MOST_POINTS:
        raise ValueError(
            f"outputs have standard deviations up to {deviation.max().item():.3g}, too large to "
            "integrate; use a smaller prior scale or learning rate"
        )
    t = h * torch.arange(-half, half + 1, dtype=mean.dtype, device=mean.device)
    weights = h / math.sqrt(math.tau) * (-0.5 * t.square()).exp()
    z = mean.unsqueeze(-1) + deviation.unsqueeze(-1) * t
    return (function(z) * weights).sum(-1)


def _identity(mean: Tensor, deviation: Tensor) -> Tensor:
    return mean + 0 * deviation


def _relu(mean: Tensor, deviation: Tensor) -> Tensor:
    """μΦ(μ/s) + sφ(μ/s)."""
    u = mean / deviation
    density = (-0.5 * u.square()).exp() / math.sqrt(math.tau)
    value: Tensor = mean * ndtr(u) + deviation * density
    return value


def _probit(mean: Tensor, deviation: Tensor) -> Tensor:
    """Φ(μ/√(1 + s²))."""
    value: Tensor = ndtr(mean / (1 + deviation.square()).sqrt())
    return value


def _erf(mean: Tensor, deviation: Tensor) -> Tensor:
    """erf(μ/√(1 + 2s²))."""
    return torch.erf(mean / (1 + 2 * deviation.square()).sqrt())


# |σ(x + iy)| ≤ 1/sin y and |tanh(x + iy)| ≤ tan y beyond y = π/2 and π/4, and for probit and erf
# |Φ(x + iy)| ≤ Φ(x) + φ(x)·∫₀ʸ e^{t²/2}dt ≤ 1 + 0.4·1.2 at y = 1.
_QUARTER = 3 * math.pi / 4
ACTIVATIONS = {
    "identity": OutputActivation(lambda z: z, closed=_identity),
    "relu": OutputActivation(torch.relu, closed=_relu),
    "probit": OutputActivation(ndtr, Strip(1.0, 1.5), _probit, (0.0, 1.0)),
    "erf": OutputActivation(torch.erf, Strip(0.7, 4.0), _erf, (-1.0, 1.0)),
    "sigmoid": OutputActivation(torch.sigmoid, Strip(_QUARTER, 1.4143), None, (0.0, 1.0)),
    "tanh": OutputActivation(torch.tanh, Strip(_QUARTER / 2, 2.4143), None, (-1.0, 1.0)),
}


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
        self._sealed = sealed(self, self._sealed)

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
