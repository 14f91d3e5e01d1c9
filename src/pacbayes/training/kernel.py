"""Train a kernel network: minimise the small-kl bound of its closed-form risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.special import ndtr

from pacbayes.bounds.binary_kl import kl_inverse
from pacbayes.data.tasks import check_examples, task_of
from pacbayes.features.kernels import Kernel
from pacbayes.networks.families.process import Directions, Process, directions
from pacbayes.networks.kernel import KernelNetwork, KernelPrior
from pacbayes.randomness import stream
from pacbayes.training.objectives import small_kl_lambda

__all__ = ["HeadProgress", "KernelSettings", "train_head", "train_kernel"]

_NODES, _STEP = 14, 0.4  # of the integral over k > 2 classes in training, to either side
_ROOT = math.sqrt(math.tau)
_LEAST = 1e-36  # variance, so that no score is divided by zero
_SMALLEST = 1e-24  # value of a kernel that float32 can train on, and its inverse the largest
_STEPS, _ROWS = 3000, 1000  # in all, and examples at a time
_WARM, _RISING, _BOUND = 0.05, 0.1, 0.3  # parts of the run: rates rise, the KL's weight, λ is free


@dataclass(frozen=True)
class HeadProgress:
    """An epoch of training: the running risk, the KL, and the small-kl bound of both as a guide."""

    epoch: int
    risk: float
    kl: float
    guide: float


@dataclass(frozen=True)
class KernelSettings:
    """How Q is chosen: from as many landmarks and directions, by so many epochs.

    Attributes:
        landmarks: training examples that span the directions; a seed draws them.
        directions: at most so many of the leading ones carry Q.
        epochs: None is as many as take 3000 steps.
    """

    landmarks: int = 2500
    directions: int = 1000
    epochs: int | None = None
    seed: int = 0
    delta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("landmarks", "directions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.epochs is not None and self.epochs < 0:
            raise ValueError(f"epochs must be at least 0, got {self.epochs}")


def train_kernel(
    prior: KernelPrior,
    x: Tensor,
    y: Tensor,
    classes: int,
    settings: KernelSettings | None = None,
    *,
    cache: bool | Path = False,
    follow: Callable[[HeadProgress], None] | None = None,
) -> KernelNetwork:
    """Choose directions and train Q on the bound set, of which the prior has seen nothing.

    Args:
        x, y: examples, and labels −1/+1 or class indices.
        cache: keep the features, as in `KernelPrior.of`.
        follow: is told the progress after every epoch.
    """
    s = settings or KernelSettings()
    task = task_of(classes)
    check_examples(x, y, task)
    features = prior.of(x, cache=cache)
    draw = np.random.default_rng(stream(s.seed, "network"))
    chosen = np.sort(draw.permutation(len(x))[: s.landmarks])
    basis = directions(Kernel.parse(prior.kernel), features[chosen], min(s.directions, len(chosen)))
    z, rest = _coordinates(basis, features)
    epochs = math.ceil(_STEPS * _batch(len(x)) / len(x)) if s.epochs is None else s.epochs
    head = Head(z, rest, y, task.outputs)
    for progress in train_head(head, epochs, seed=stream(s.seed, "training") >> 1, delta=s.delta):
        if follow is not None:
            follow(progress)
    parts = (t.double().numpy() for t in (head.mean, head.log_scale))
    return KernelNetwork(prior, Process(basis, *parts))


def _coordinates(basis: Directions, features: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Return z, (n, K), and k(x, x) − |z|², (n,), in float32 and in blocks of flat memory."""
    n = len(features)
    z, rest, most = torch.empty(n, len(basis.matrix)), torch.empty(n), 0.0
    for start in range(0, n, _ROWS):
        part = slice(start, start + _ROWS)
        at = basis.coordinates(features[part])
        z[part] = torch.from_numpy(at.z)
        most = max(most, float(at.total.max()))
        rest[part] = torch.from_numpy(np.maximum(at.total - np.square(at.z).sum(1), 0.0))
    if not _SMALLEST <= most <= 1 / _SMALLEST:
        raise ValueError(
            f"the kernel reaches {most:.2g} on these examples; scale features or kernel, so that "
            "it is about 1"
        )
    return z, rest


class Head:
    """m, (K, outputs), and ln s, (K,), in float32, with gradients written out."""

    def __init__(self, z: Tensor, rest: Tensor, y: Tensor, outputs: int) -> None:
        self.z, self.rest, self.y = z, rest, y
        squares = torch.linalg.vector_norm(z, dim=0).square()
        self.mean = torch.zeros(z.shape[1], outputs)
        share = len(z) * squares / squares.sum()
        self.log_scale = -0.5 * (1 + 0.1 * share).log()

    def slopes(self, batch: Tensor) -> tuple[float, Tensor, Tensor]:
        """Return the mean loss of a batch, and its gradient in m and ln s."""
        z, y = self.z[batch], self.y[batch]
        squares, variances = z.square(), (2 * self.log_scale).exp()
        v = (squares @ variances + self.rest[batch]).clamp_(min=_LEAST)
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
    head: Head, epochs: int, *, seed: int, delta: float, rate: float = 0.02
) -> Iterator[HeadProgress]:
    """Train a head in place by Adam; yield after every epoch.

    At first the KL's weight rises to 1/n; later risk and KL are weighted by their slopes of the
    small-kl bound.
    """
    n, step, lam = len(head.y), 0, float(len(head.y))
    generator = torch.Generator().manual_seed(seed)
    parameters = (head.mean, head.log_scale)
    moments = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    batch = _batch(n)
    steps = epochs * math.ceil(n / batch)
    for epoch in range(1, epochs + 1):
        losses = 0.0
        for part in torch.randperm(n, generator=generator).split(batch):
            done, step = step / steps, step + 1
            loss, *slopes = head.slopes(part)
            weight = min(1.0, done / _RISING) / lam
            now = rate * min(1.0, done / _WARM) * 0.5 * (1 + math.cos(math.pi * done))
            for moment, g, of_kl in zip(moments, slopes, head.kl()[1:], strict=True):
                _adam(*moment, g.add_(of_kl, alpha=weight), now, step)
            losses += loss * len(part)
        risk, kl = losses / n, head.kl()[0]
        if epoch >= _BOUND * epochs:
            lam = small_kl_lambda(risk, kl, n, delta)
        complexity = (kl + math.log(2 * math.sqrt(n) / delta)) / n
        yield HeadProgress(epoch, risk, kl, kl_inverse(min(1.0, max(0.0, risk)), complexity))


def _batch(n: int) -> int:
    return max(1, min(512, n // 8))


def _adam(p: Tensor, first: Tensor, second: Tensor, g: Tensor, rate: float, step: int) -> None:
    """Take a step of Adam with β = .9 and .99."""
    first.mul_(0.9).add_(g, alpha=0.1)
    second.mul_(0.99).addcmul_(g, g, value=0.01)
    scale = (second / (1 - 0.99**step)).sqrt_().add_(1e-8)
    p.addcdiv_(first, scale, value=-rate / (1 - 0.9**step))
