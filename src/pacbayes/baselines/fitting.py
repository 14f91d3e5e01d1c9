"""Training of baseline models by plain autograd on their own objective."""

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

_ROWS = 20_000  # rows (T·B) in one block of an evaluation


class Fitting(Loop):
    """Train with Adam on `objective`, with the same protocol as every other run.

    Args:
        model: returns F ∈ [−1, 1].
        x: examples, (n, d).
        y: labels −1/+1, (n,).
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
        """Return F̂(x), (B,), the mean of T samples if the model samples."""

    @abstractmethod
    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the objective that a step minimises."""

    @property
    def biased(self) -> bool:
        """Whether the expected output depends on T; it is then evaluated at the T of training."""
        return False

    @property
    def evaluation_samples(self) -> int:
        """T of an evaluation."""
        return self.settings.samples if self.biased else self.settings.evaluation_samples

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
        """Return F̂(x) for many examples, computed in blocks."""
        return torch.cat([self.output(block, T) for block in x.split(max(1, _ROWS // T))])

    def measured_risk(self) -> float:
        F = self.outputs(self.x, self.evaluation_samples)
        return linear(F.double(), self.y.double()).mean().item()
