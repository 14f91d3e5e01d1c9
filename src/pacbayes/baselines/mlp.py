"""The paper's mlp baseline: an unregularised relu network with tanh output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from pacbayes.baselines.fitting import Fitting
from pacbayes.networks.losses import linear

__all__ = ["MLP", "MLPFitting"]


class MLP(nn.Sequential):
    """Deterministic network x ↦ tanh(w·relu(… relu(W₁x + b₁) …) + b)."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        layers: list[nn.Module] = []
        for d, e in pairwise([inputs, *widths]):
            layers += [nn.Linear(d, e), nn.ReLU()]
        super().__init__(*layers, nn.Linear([inputs, *widths][-1], 1), nn.Tanh(), nn.Flatten(0))


class MLPFitting(Fitting):
    """Train on the linear loss. Without a bound, the best epoch has the least training loss."""

    def output(self, x: Tensor, T: int) -> Tensor:
        value: Tensor = self.model(x)
        return value

    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        return linear(self.output(x, 1), y).mean()

    def learning_rate(self, done: float) -> float:
        """Return the constant learning rate. Without a bound it is never halved."""
        return self.settings.learning_rate

    def divergence(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def bound(self, risk: float, kl: float) -> float:
        return 1.0
