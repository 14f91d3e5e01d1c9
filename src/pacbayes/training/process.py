"""Train a Gaussian process head: minimise the small-kl bound of its closed-form risk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.special import ndtr

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.training.objectives import small_kl_lambda

__all__ = ["HeadProgress", "train_head"]

_NODES, _STEP = 14, 0.4  # of the integral over k > 2 classes in training, to either side
_ROOT = math.sqrt(math.tau)


@dataclass(frozen=True)
class HeadProgress:
    """An epoch of training: the running risk, the KL, and the small-kl bound of both as a guide."""

    epoch: int
    risk: float
    kl: float
    guide: float


class Head:
    """m, (K, outputs), and ln s, (K,), in float32, with gradients written out."""

    def __init__(self, z: Tensor, total: Tensor, y: Tensor, outputs: int) -> None:
        self.z, self.y = z, y
        squares = z.square().mean(0)
        self.rest = (total - z.square().sum(1)).clamp(min=0)
        self.mean = torch.zeros(z.shape[1], outputs)
        share = len(z) * squares / squares.sum()
        self.log_scale = -0.5 * (1 + 0.1 * share).log()

    def slopes(self, batch: Tensor) -> tuple[float, Tensor, Tensor]:
        """Return the mean loss of a batch, and its gradient in m and ln s."""
        z, y = self.z[batch], self.y[batch]
        squares, variances = z.square(), (2 * self.log_scale).exp()
        v = squares @ variances + self.rest[batch]
        deviation = v.sqrt().unsqueeze(1)
        u = (z @ self.mean) / deviation  # (B, outputs)
        loss, in_u = _binary(u, y) if u.shape[1] == 1 else _classes(u, y)
        in_v = -0.5 * (in_u * u).sum(1) / v
        mean = z.T @ (in_u / deviation)
        scale = 2 * variances * (squares.T @ in_v)
        return loss.mean().item(), mean / len(z), scale / len(z)

    def kl(self) -> tuple[float, Tensor, Tensor]:
        """Return the KL of contrasts, and its gradient in m and ln s."""
        copies, outputs = max(1, self.mean.shape[1] - 1), self.mean.shape[1]
        centred = self.mean if outputs == 1 else self.mean - self.mean.mean(1, keepdim=True)
        r = 2 * self.log_scale
        total = 0.5 * (copies * (r.expm1() - r).sum() + centred.square().sum())
        return total.item(), centred, copies * r.expm1()


def _binary(u: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return Φ(−yu) of u, (B, 1), and its slope in u."""
    sign = y.to(u).unsqueeze(1)
    return ndtr(-sign * u).squeeze(1), -sign * (-0.5 * u * u).exp() / _ROOT


def _classes(u: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 − ∫φ(t) Π_{c≠y} Φ(t + u_y − u_c) dt, and its slope in u, (B, k).

    By the trapezoidal rule, whose error no gradient sees; certificates have their own.
    """
    t = _STEP * torch.arange(-_NODES, _NODES + 1, dtype=u.dtype)
    weights = _STEP / _ROOT * (-0.5 * t * t).exp()
    own = y.unsqueeze(1)
    apart = u.gather(1, own) - u  # (B, k), zero for the label
    at = t.view(1, -1, 1) + apart.unsqueeze(1)  # (B, J, k)
    below = ndtr(at).clamp_(min=1e-30)
    below.scatter_(2, own.unsqueeze(1).expand(-1, len(t), 1), 1.0)
    product = below.prod(2) * weights  # (B, J)
    ratio = at.square_().mul_(-0.5).exp_().div_(below)
    slope = torch.bmm(product.unsqueeze(1), ratio).squeeze(1) / _ROOT  # of P in each `apart`
    slope.scatter_(1, own, 0.0)
    in_u = slope.scatter(1, own, -slope.sum(1, keepdim=True))
    return 1 - product.sum(1), in_u


def train_head(
    z: NDArray[np.floating],
    total: NDArray[np.floating],
    y: Tensor,
    outputs: int,
    *,
    epochs: int,
    seed: int,
    delta: float = 0.05,
    batch: int = 512,
    rate: float = 0.02,
) -> Iterator[tuple[HeadProgress, Head]]:
    """Yield the head after every epoch of Adam on its guide.

    The first epochs weight the KL as at a risk of the last epoch, rising; later ones follow the
    slopes of the small-kl bound in risk and KL.

    Args:
        z, total: coordinates and k(x, x) of the bound set.
        y: labels −1/+1, or class indices.
    """
    n = len(z)
    head = Head(torch.from_numpy(z).float(), torch.from_numpy(total).float(), y, outputs)
    generator = torch.Generator().manual_seed(seed)
    parameters = (head.mean, head.log_scale)
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    batch = max(1, min(batch, n // 8))
    steps, step = epochs * math.ceil(n / batch), 0
    lam, risk = float(n), 0.5
    for epoch in range(epochs):
        losses = 0.0
        for part in torch.randperm(n, generator=generator).split(batch):
            done = step / steps
            loss, *slopes = head.slopes(part)
            _, *of_kl = head.kl()
            weight = min(1.0, done / 0.1) / lam
            speed = rate * min(1.0, done / 0.05) * 0.5 * (1 + math.cos(math.pi * done))
            step += 1
            for p, g, k, a, b in zip(parameters, slopes, of_kl, first, second, strict=True):
                g.add_(k, alpha=weight)
                a.mul_(0.9).add_(g, alpha=0.1)
                b.mul_(0.99).addcmul_(g, g, value=0.01)
                size = speed / (1 - 0.9**step)
                p.addcdiv_(a, (b / (1 - 0.99**step)).sqrt_().add_(1e-8), value=-size)
            losses += loss * len(part)
        risk, kl = losses / n, head.kl()[0]
        if epoch + 1 >= 0.3 * epochs:
            lam = small_kl_lambda(risk, kl, n, delta)
        complexity = (kl + math.log(2 * math.sqrt(n) / delta)) / n
        yield HeadProgress(epoch + 1, risk, kl, kl_inverse(min(1.0, risk), complexity)), head
