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
from typing import Any

import torch
from torch import Tensor

from pacbayes.bounds.domain import upward
from pacbayes.devices import wide
from pacbayes.networks.activations import log_sign_probability

__all__ = ["REACH", "accuracy", "error", "label_probability", "step", "win_probabilities"]

REACH = 7.0
_STEPS = (0.4, 0.3, 0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.05)
_GOAL = 1e-8  # no certificate shows that many digits
_MOST_POINTS = 4001
_TRAINING_STEP, _TRAINING_REACH = 0.4, 5.5  # of more than twelve classes
_NUMBERS = {True: 2**16, False: 2**24}  # of a block: what a CPU's cache holds, or few launches


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
    mean, deviation = wide(mean), wide(deviation)
    z, h = _grid(mean, deviation, step(mean.shape[-1]))
    v = (z.unsqueeze(-1) - mean.unsqueeze(-2)) / deviation.unsqueeze(-2)  # (…, J, k)
    below = log_sign_probability(v.new_ones(()), v)
    others = below.sum(-1, keepdim=True) - below
    density = (others - 0.5 * v.square()).exp() / deviation.unsqueeze(-2)
    return h / math.sqrt(math.tau) * density.sum(-2)


def label_probability(mean: Tensor, deviation: Tensor, label: Tensor) -> Tensor:
    """Return P(the label's class wins), (…), with a gradient, for training.

    The slopes are computed beside the integral, block by block, instead of by autograd on a grid
    of all classes. Up to twelve classes the grid is that of `win_probabilities`. With more it is
    the native engine's for training, near enough for a gradient.

    Args:
        mean: (…, k).
        deviation: (…, k), or (…, 1) where it is the same for all.
        label: class indices, (…), or a shape that broadcasts to it.
    """
    mean, deviation = wide(mean), wide(deviation)
    label = label.to(mean.device).expand(mean.shape[:-1])
    rows = (t.reshape(-1, t.shape[-1]) for t in (mean, deviation))
    p: Tensor = _LabelProbability.apply(*rows, label.reshape(-1))
    return p.view(label.shape)


def _grid(mean: Tensor, deviation: Tensor, H: float, reach: float = REACH) -> tuple[Tensor, Tensor]:
    """Return points, (…, J), and their distance, (…, 1); neither has a gradient."""
    with torch.no_grad():
        least, most = deviation.aminmax(dim=-1, keepdim=True)
        half = math.ceil(reach / H * (most / least).max().item())
        if 2 * half + 1 > _MOST_POINTS:
            raise ValueError(
                "the standard deviations of the class scores differ too much to integrate; "
                "try a lower learning rate"
            )
        h = H * least
        points = torch.arange(-half, half + 1, dtype=mean.dtype, device=mean.device)
        return mean.amax(-1, keepdim=True) + h * points, h


class _LabelProbability(torch.autograd.Function):
    r"""P(label) of rows of scores, (R, k), and its slopes in their means and deviations.

    P = Σ_j w_j with w_j = h·φ(v_jy)/s_y · Π_{k≠y} Φ(v_jk) at v = (z − μ)/s. The slope of ln w_j is
    −φ/Φ(v_jk)/s_k in the mean of another class and v_jy/s_y in that of the label's; in deviations
    it is v times these, and −1/s_y besides. Here u = −v/√2, so that erfc(u) = 2Φ(v) and
    e^{−u²} ∝ φ(v).
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, deviation: Tensor, label: Tensor) -> Tensor:
        reach = REACH if step(mean.shape[1]) == _TRAINING_STEP else _TRAINING_REACH
        z, h = _grid(mean, deviation, _TRAINING_STEP, reach)
        scale = (0.5**0.5 / deviation).expand_as(mean)
        y = label.unsqueeze(-1)
        own = scale.gather(-1, y)  # (R, 1)
        u = (mean.gather(-1, y) - z) * own  # (R, J)
        density = own * h / math.sqrt(math.pi) * torch.addcmul(_zero(u), u, u, value=-1).exp_()
        size = max(1, _NUMBERS[u.device.type == "cpu"] // (u.shape[1] * mean.shape[1]))
        room = mean.new_empty(3, min(size, len(mean)), u.shape[1], mean.shape[1])
        parts = (t.split(size) for t in (z, mean, scale, y, u, density))
        found = (_weighted(room[:, : len(part[0])], *part) for part in zip(*parts, strict=True))
        w, in_mean, in_deviation = map(torch.cat, zip(*found, strict=True))
        p = w.sum(-1)
        in_deviation.div_(math.sqrt(math.pi)).scatter_add_(-1, y, -p.unsqueeze(-1))
        ctx.shape = deviation.shape
        ctx.save_for_backward(
            in_mean.mul_(scale).mul_(-1 / math.sqrt(math.pi)),
            in_deviation.mul_(scale).mul_(math.sqrt(2)),
        )
        return p

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        in_mean, in_deviation = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        return grad * in_mean, (grad * in_deviation).sum_to_size(ctx.shape), None


def _weighted(
    room: Tensor, z: Tensor, mean: Tensor, scale: Tensor, y: Tensor, u_own: Tensor, density: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return w, (R, J), and its sums with e^{−u²}/Φ and u·e^{−u²}/Φ, (R, k).

    For the label, 2√π·u stands in the place of e^{−u²}/Φ.

    Args:
        room: three times (R, J, k), overwritten.
    """
    u, cumulative, slope = room
    own = y.unsqueeze(-1).expand(-1, z.shape[1], 1)  # (R, J, 1)
    shifted = (mean * scale).unsqueeze(-2)
    torch.addcmul(shifted, z.unsqueeze(-1), scale.unsqueeze(-2), value=-1, out=u)
    torch.erfc(u, out=cumulative).mul_(0.5).scatter_(-1, own, 1.0)
    w = density * cumulative.prod(-1)
    torch.addcmul(_zero(u), u, u, value=-1, out=slope).exp_()
    slope.div_(cumulative.clamp_(min=1e-300))
    slope.scatter_(-1, own, (u_own * (2 * math.sqrt(math.pi))).unsqueeze(-1))
    weights = w.unsqueeze(-2)
    in_mean = torch.bmm(weights, slope).squeeze(-2)
    return w, in_mean, torch.bmm(weights, slope.mul_(u)).squeeze(-2)


def _zero(t: Tensor) -> Tensor:
    return t.new_zeros(())
