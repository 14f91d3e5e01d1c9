"""The paper's mlp baseline: an unregularised relu network with tanh output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from pacbayes.baselines.fitting import Fitting
from pacbayes.data.tasks import linear
from pacbayes.randomness import redirected
from pacbayes.settings import Settings
from pacbayes.training.schedules import CONSTANT

__all__ = ["MLP", "MLPFitting"]


class MLP(nn.Sequential):
    """Deterministic network x ↦ tanh(w·relu(… relu(W₁x + b₁) …) + b)."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        layers: list[nn.Module] = []
        with redirected():  # nn.Linear draws its own weights
            for d, e in pairwise([inputs, *widths]):
                layers += [nn.Linear(d, e), nn.ReLU()]
            layers.append(nn.Linear([inputs, *widths][-1], 1))
        super().__init__(*layers, nn.Tanh(), nn.Flatten(0))


class MLPFitting(Fitting):
    """Without a bound: the rate is constant, and the epoch with the least training loss is best."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, settings: Settings) -> None:
        super().__init__(model, x, y, settings, CONSTANT)

    def output(self, x: Tensor, T: int) -> Tensor:
        value: Tensor = self.model(x)
        return value

    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        return linear(self.output(x, 1), y).mean()

    def divergence(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def bound(self, risk: float, kl: float) -> float:
        return 1.0
