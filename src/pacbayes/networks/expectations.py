r"""E A(z), z ~ N(μ, s²), for output activations A: in closed form, or with a proven error.

Where no closed form is known, A(μ + st)·φ(t) is integrated by the trapezoidal rule on |t| ≤ 7. If A
is analytic and at most M in size where |Im z| ≤ r, the contour of the Fourier integral can be
shifted by any a ≤ r/s, and Poisson's summation formula bounds the error of the rule by

    2·M·e^{a²/2} / (e^{2πa/h} − 1),

to which cutting the grid off adds 2·M·Φ(−7). The step h is the one at which the first term is 1e-10
for the largest s at hand. Gauss–Hermite quadrature has no such bound for activations with poles,
such as sigmoid and tanh, and needs more points for large s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import ndtr

__all__ = ["ACTIVATIONS", "OutputActivation", "Strip"]

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
