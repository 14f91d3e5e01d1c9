"""Bodies: everything before the last layer, which draws activations (T, B, d) from inputs."""

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
    """Gaussian dense layers, each followed by an activation's sampling rule.

    Local draws give every example and every sample its own weights.
    """

    freshness: Freshness = "per-example"

    def __init__(self, layers: Sequence[GaussianLinear], rules: Sequence[Rule]) -> None:
        super().__init__()
        if not layers or len(layers) != len(rules):
            raise ValueError(
                f"every layer needs one rule, got {len(layers)} layers and {len(rules)} rules"
            )
        self.layers: Sequence[GaussianLinear] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.rules = list(rules)

    def draw(self, x: Tensor, T: int) -> Draw:
        if x.dim() != 2:
            raise ValueError(f"a dense body needs examples of shape (B, d), got {tuple(x.shape)}")
        a, log_prob = x, x.new_zeros(())
        for layer, rule in zip(self.layers, self.rules, strict=True):
            sample = rule(*layer.moments(a), T)
            a, log_prob = sample.value, log_prob + sample.log_prob
        return Draw(a, log_prob)


class Deterministic(nn.Module):
    """A module that always returns the same activations (B, d), so that the aggregate is exact."""

    freshness: Freshness = "exact"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if any(isinstance(m, Gaussian) for m in module.modules()):
            raise ValueError("a body with Gaussian weights is not deterministic; use Sampled")
        self.module = module

    def draw(self, x: Tensor, T: int) -> Draw:
        a = self.module(x)
        if not torch.is_grad_enabled():
            part = self.module(x[: (len(x) + 1) // 2])  # again, in a smaller batch
            if not torch.allclose(a[: len(part)], part, rtol=1e-5, atol=1e-8):
                raise ValueError(
                    "the body is not deterministic: two calls gave different results; use Sampled"
                )
        return Draw(a.expand(T, *a.shape), a.new_zeros(()))


class Sampled(nn.Module):
    """Any module that draws its own randomness; it is called once for each of T samples.

    The gradient is that of its output's graph. Since nothing is known about how its noise is shared
    between the examples of a batch, a batch counts as one draw.
    """

    freshness: Freshness = "per-batch"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def draw(self, x: Tensor, T: int) -> Draw:
        return Draw(torch.stack([self.module(x) for _ in range(T)]), x.new_zeros(()))


Body = Dense | Deterministic | Sampled
