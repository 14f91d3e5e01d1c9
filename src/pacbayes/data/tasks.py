"""Classification tasks, two classes or k, and checks of the tensors that a network is given.

A task owns everything that differs between the two: the shape of a network's output, the coding of
labels, the loss, and how an output becomes a decision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from pacbayes.randomness import category, uniform_like

__all__ = [
    "Binary",
    "Classes",
    "Task",
    "all_finite",
    "check_bound_set",
    "check_examples",
    "linear",
    "task_of",
]


def linear(prediction: Tensor, y: Tensor) -> Tensor:
    """ℓ_lin(F, y) = ½(1 − yF), which is the zero-one loss where F ∈ {−1, +1}."""
    return 0.5 * (1 - y * prediction)


class Task(ABC):
    """A classification task.

    Attributes:
        classes: number of classes.
        outputs: number of outputs of a network's last layer.
        allowed: the labels a network is given, in words.
    """

    classes: int
    outputs: int
    allowed: str

    @abstractmethod
    def encode(self, index: Tensor) -> Tensor:
        """Return class indices as the labels that losses take."""

    @abstractmethod
    def decode(self, y: Tensor) -> Tensor:
        """Return labels as class indices."""

    @abstractmethod
    def invalid(self, y: Tensor) -> Tensor:
        """Return a mask of the labels that are not allowed."""

    @abstractmethod
    def shares(self, value: Tensor) -> Tensor:
        """Return the probability of every class, (…, k), from an output."""

    @abstractmethod
    def loss(self, value: Tensor, y: Tensor) -> Tensor:
        """Return P(the randomised classifier errs), one loss per label."""

    @abstractmethod
    def label_probability(self, value: Tensor, y: Tensor) -> Tensor:
        """Return P(label), bounded away from zero: loss / P(label) has the gradient of −ln P."""

    @abstractmethod
    def draw(self, value: Tensor) -> Tensor:
        """Draw a label for every example from the output's probabilities."""

    @abstractmethod
    def decide(self, value: Tensor) -> Tensor:
        """Return the index of the likeliest class, from an output or from scores."""

    @abstractmethod
    def margin(self, value: Tensor, y: Tensor) -> Tensor:
        """Return by how much the label is ahead of every other class, in outputs or scores."""

    @abstractmethod
    def confidence(self, value: Tensor) -> Tensor:
        """Return the number shown beside a vote: F̂, or the winner's share."""

    @abstractmethod
    def scores(self, z: Tensor) -> Tensor:
        """Return the last layer's output, (…, outputs), in the shape of a score."""

    def wrong(self, value: Tensor, y: Tensor) -> Tensor:
        """Return 1 where the decision errs and 0 elsewhere; a tie is an error."""
        return (self.margin(value, y) <= 0).to(value.dtype)

    def check_labels(self, y: Tensor) -> None:
        """Raise ValueError if a label is not allowed."""
        wrong = y[self.invalid(y)]
        if len(wrong):
            raise ValueError(f"labels must be {self.allowed}, got {wrong[0].item():g}")


@dataclass(frozen=True)
class Binary(Task):
    """Two classes: labels −1 and +1, and one output F ∈ [−1, 1] with P(+1) = ½(1 + F)."""

    classes = 2
    outputs = 1
    allowed = "-1 or +1"

    def encode(self, index: Tensor) -> Tensor:
        return torch.where(index > 0, 1.0, -1.0)

    def decode(self, y: Tensor) -> Tensor:
        return (y > 0).long()

    def invalid(self, y: Tensor) -> Tensor:
        """With labels 0 and 1, the loss of one class would be ½ whatever the prediction."""
        return (y != 1) & (y != -1)

    def shares(self, value: Tensor) -> Tensor:
        return torch.stack([0.5 * (1 - value), 0.5 * (1 + value)], -1)

    def loss(self, value: Tensor, y: Tensor) -> Tensor:
        return linear(value, y)

    def label_probability(self, value: Tensor, y: Tensor) -> Tensor:
        return (1 - self.loss(value, y)).clamp(min=1e-6)

    def draw(self, value: Tensor) -> Tensor:
        return torch.where(2 * uniform_like(value) - 1 < value, 1.0, -1.0).to(value.dtype)

    def decide(self, value: Tensor) -> Tensor:
        return (value > 0).long()

    def margin(self, value: Tensor, y: Tensor) -> Tensor:
        return value * y

    def confidence(self, value: Tensor) -> Tensor:
        return value

    def scores(self, z: Tensor) -> Tensor:
        return z.squeeze(-1)


@dataclass(frozen=True)
class Classes(Task):
    """k > 2 classes: labels are indices, and the output is every class's probability, (…, k)."""

    classes: int

    def __post_init__(self) -> None:
        if self.classes < 3:
            raise ValueError(f"classes must be at least 3, got {self.classes}; for two use Binary")

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """The number of outputs, one for each class."""
        return self.classes

    @property
    def allowed(self) -> str:  # type: ignore[override]
        """The labels in words."""
        return f"from 0 to {self.classes - 1}"

    def encode(self, index: Tensor) -> Tensor:
        return index

    def decode(self, y: Tensor) -> Tensor:
        return y

    def invalid(self, y: Tensor) -> Tensor:
        if y.is_floating_point():
            raise ValueError(f"labels of {self.classes} classes must be integers, got {y.dtype}")
        return (y < 0) | (y >= self.classes)

    def shares(self, value: Tensor) -> Tensor:
        return value

    def loss(self, value: Tensor, y: Tensor) -> Tensor:
        """1 − P(class y): the linear loss for more than two classes."""
        return 1 - self._own(value, y)

    def label_probability(self, value: Tensor, y: Tensor) -> Tensor:
        return self._own(value, y).clamp(min=1e-300)

    def draw(self, value: Tensor) -> Tensor:
        return category(value)

    def decide(self, value: Tensor) -> Tensor:
        return value.argmax(-1)

    def margin(self, value: Tensor, y: Tensor) -> Tensor:
        index = y.expand(value.shape[:-1]).unsqueeze(-1)
        return self._own(value, y) - value.scatter(-1, index, -math.inf).amax(-1)

    def confidence(self, value: Tensor) -> Tensor:
        return value.amax(-1)

    def scores(self, z: Tensor) -> Tensor:
        return z

    @staticmethod
    def _own(value: Tensor, y: Tensor) -> Tensor:
        index = y.expand(value.shape[:-1]).unsqueeze(-1)
        return value.gather(-1, index).squeeze(-1)


def task_of(classes: int) -> Task:
    """Return the task with that many classes."""
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    return Binary() if classes == 2 else Classes(classes)


_NUMBERS = 2_000_000  # of a block, to keep memory flat


def check_examples(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless features are finite and every example has a label of the task."""
    if y.shape != (len(x),) or len(x) == 0:
        raise ValueError(
            "need at least one example, and one label for each; got labels of shape "
            f"{tuple(y.shape)} for {len(x)} examples"
        )
    task.check_labels(y)
    if not all_finite(x):
        raise ValueError("every feature must be a finite number; got NaN or infinity")


def all_finite(x: Tensor) -> bool:
    """Return whether every number is finite, in blocks: torch's own check holds two copies."""
    rows = max(1, _NUMBERS * len(x) // max(1, x.numel())) if x.dim() else 1
    parts = x.split(rows) if x.dim() else (x,)
    return all(bool(torch.isfinite(part).all()) for part in parts)


def check_bound_set(x: Tensor, y: Tensor, task: Task) -> None:
    """Raise ValueError unless x and y are tensors of valid examples; a data loader is refused."""
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        raise ValueError(
            "the bound set must be two tensors that hold every example once and unchanged (a data "
            "loader may augment or repeat examples), "
            f"got {type(x).__name__} and {type(y).__name__}"
        )
    check_examples(x, y, task)
