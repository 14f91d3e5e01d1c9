"""What comes before the last layer: anything that draws activations (T, B, d) from inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from pacbayes.networks.activations import Rule
from pacbayes.networks.draws import Draw
from pacbayes.networks.gaussian import Gaussian
from pacbayes.networks.layers import GaussianLinear

__all__ = ["Body", "Dense", "Deterministic", "Freshness", "Sampled"]

Freshness = Literal["exact", "per-example", "per-batch"]


class Dense(nn.Module):
    """Gaussian dense layers, each followed by a hidden unit's sampling rule.

    Every example and every sample has weights of its own, through local draws.
    """

    freshness: Freshness = "per-example"

    def __init__(self, layers: Sequence[GaussianLinear], rules: Sequence[Rule]) -> None:
        super().__init__()
        if not layers or len(layers) != len(rules):
            raise ValueError(f"{len(layers)} layers need as many rules, got {len(rules)}")
        self.layers: Sequence[GaussianLinear] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.rules = list(rules)

    def draw(self, x: Tensor, T: int) -> Draw:
        if x.dim() != 2:
            raise ValueError(f"a dense body takes examples (B, d), got shape {tuple(x.shape)}")
        a, log_prob = x, x.new_zeros(())
        for layer, rule in zip(self.layers, self.rules, strict=True):
            sample = rule(*layer.moments(a), T)
            a, log_prob = sample.value, log_prob + sample.log_prob
        return Draw(a, log_prob)


class Deterministic(nn.Module):
    """A module that always returns the same activations (B, d): the aggregate is then exact."""

    freshness: Freshness = "exact"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if any(isinstance(m, Gaussian) for m in module.modules()):
            raise ValueError("a body with Gaussian weights is not deterministic; use Sampled")
        self.module = module

    def draw(self, x: Tensor, T: int) -> Draw:
        a = self.module(x)
        if not torch.is_grad_enabled():
            part = self.module(x[: (len(x) + 1) // 2])  # again, and in other company
            if not torch.allclose(a[: len(part)], part, rtol=1e-5, atol=1e-8):
                raise ValueError("the body is not deterministic: two calls differ; use Sampled")
        return Draw(a.expand(T, *a.shape), a.new_zeros(()))


class Sampled(nn.Module):
    """Any module that draws its own randomness when called; called once for each of T samples.

    The gradient is whatever its output's graph carries. Nothing is known of how its noise is
    shared between the examples of a batch, so a batch counts as one draw.
    """

    freshness: Freshness = "per-batch"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def draw(self, x: Tensor, T: int) -> Draw:
        return Draw(torch.stack([self.module(x) for _ in range(T)]), x.new_zeros(()))


Body = Dense | Deterministic | Sampled
