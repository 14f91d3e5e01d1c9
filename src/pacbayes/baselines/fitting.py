"""The loop for models that are no networks of ours: plain autograd on their own objective."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from pacbayes.data.checks import check_examples
from pacbayes.data.tasks import Binary, linear
from pacbayes.settings import Settings
from pacbayes.training.loop import Loop
from pacbayes.training.schedules import Schedule

__all__ = ["Fitting"]

_ROWS = 20_000  # of T·B in a block of an evaluation


class Fitting(Loop):
    """Adam on `objective`, by the same protocol as every other run.

    Args:
        model: returns F ∈ [−1, 1].
        x, y: examples (n, d), labels −1/+1.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        settings: Settings,
        schedule: Schedule | None = None,
    ) -> None:
        check_examples(x, y, Binary())
        super().__init__(model, len(x), settings, schedule)
        self.x, self.y = x, y

    @abstractmethod
    def output(self, x: Tensor, T: int) -> Tensor:
        """F̂(x), (B,), of T samples where there are any."""

    @abstractmethod
    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        """What a step descends."""

    @property
    def lam(self) -> float:
        return 1.0

    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        loss = self.objective(self.x[index], self.y[index])
        loss.backward()
        self.optimiser.step()
        return loss.item()

    @torch.no_grad()
    def outputs(self, x: Tensor, T: int) -> Tensor:
        """F̂ of many examples, in blocks."""
        return torch.cat([self.output(block, T) for block in x.split(max(1, _ROWS // T))])

    def measured_risk(self) -> float:
        F = self.outputs(self.x, self.settings.evaluation_samples)
        return linear(F.double(), self.y.double()).mean().item()
