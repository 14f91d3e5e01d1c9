r"""P(score y is the largest) for k independent Gaussian scores, with a proven quadrature error.

    P(y wins) = ∫ φ((z − μ_y)/s_y)/s_y · Π_{k≠y} Φ((z − μ_k)/s_k) dz

by the trapezoidal rule on a grid of step h = H·min s around max μ, the same for every class y. The
integrand is entire, so that by Poisson's summation formula the rule errs by at most

    2·e^{a²/2}·M(a)^{k−1} / (e^{2πa/H} − 1),    M(a) = sup_x |Φ(x + ia)| ≤ Φ(1/E) + φ(1/E)·E,

for every a > 0, with E = ∫₀ᵃ e^{t²/2}dt: the contour of the Fourier integral is shifted by a·min s,
where |φ| grows by e^{a²/2} and |Φ(x + ia)| ≤ Φ(x) + φ(x)·E. Cutting the grid off REACH·max s from
max μ loses at most 2.2·Φ(−REACH), since the class with the largest mean scores there so rarely.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from pacbayes.bounds.domain import upward
from pacbayes.devices import wide
from pacbayes.networks.activations import log_sign_probability

__all__ = ["REACH", "accuracy", "error", "step", "win_probabilities"]

REACH = 7.0
_STEPS = (0.4, 0.3, 0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.05)
_GOAL = 1e-8  # no certificate shows that many digits
_MOST_POINTS = 4001


@cache
def error(classes: int, H: float) -> float:
    """Return an upper bound of |quadrature − P(y wins)| for all means and deviations."""
    from scipy.special import erfi, ndtr

    shifts = [0.1 * i for i in range(1, 40)]
    values = []
    for a in shifts:
        E = math.sqrt(math.pi / 2) * float(erfi(a / math.sqrt(2)))
        M = float(ndtr(1 / E)) + math.exp(-0.5 / E**2) / math.sqrt(2 * math.pi) * E
        values.append(
            a * a / 2 + (classes - 1) * math.log(M) - math.log(math.expm1(a * math.tau / H))
        )
    return upward(2 * math.exp(min(values)) * (1 + 1e-9) + 2.2 * float(ndtr(-REACH)))


@cache
def step(classes: int) -> float:
    """Return H, the coarsest step with an error below 1e-8, or the finest available."""
    return next((H for H in _STEPS if error(classes, H) <= _GOAL), _STEPS[-1])


def accuracy(outputs: int) -> tuple[float | None, float]:
    """Return step and error of a head's integral: none with one output, which needs no grid."""
    return (None, 0.0) if outputs == 1 else (step(outputs), error(outputs, step(outputs)))


def win_probabilities(mean: Tensor, deviation: Tensor) -> Tensor:
    """Return P(y wins) for every class y, (…, k), with a gradient.

    In float64, so that the gradient of its logarithm does not vanish where y is unlikely to win.

    Args:
        mean: (…, k).
        deviation: (…, k), or (…, 1) where it is the same for all.
    """
    mean, deviation, H = wide(mean), wide(deviation), step(mean.shape[-1])
    with torch.no_grad():  # the position of the grid has no gradient
        least, most = deviation.aminmax(dim=-1, keepdim=True)
        half = math.ceil(REACH / H * (most / least).max().item())
        if 2 * half + 1 > _MOST_POINTS:
            raise ValueError(
                "the standard deviations of the class scores differ too much to integrate; "
                "try a lower learning rate"
            )
        h = H * least  # (…, 1)
        points = torch.arange(-half, half + 1, dtype=mean.dtype, device=mean.device)
        z = mean.amax(-1, keepdim=True) + h * points  # (…, J)
    v = (z.unsqueeze(-1) - mean.unsqueeze(-2)) / deviation.unsqueeze(-2)  # (…, J, k)
    below = log_sign_probability(v.new_ones(()), v)
    others = below.sum(-1, keepdim=True) - below
    density = (others - 0.5 * v.square()).exp() / deviation.unsqueeze(-2)
    return h / math.sqrt(math.tau) * density.sum(-2)
