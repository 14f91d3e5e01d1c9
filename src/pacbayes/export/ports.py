"""An exported predictor: a module, and what goes in and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

__all__ = ["Explicit", "Port", "Shape"]

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; the dimension "batch" may have any size."""

    name: str
    shape: Shape
    dtype: str
    meaning: str

    @property
    def batch_axis(self) -> int | None:
        """The dimension of the batch; None for noise that a batch shares."""
        return self.shape.index("batch") if "batch" in self.shape else None

    def sizes(self, batch: int | str) -> Shape:
        """Return the shape with a size for the batch."""
        return tuple(batch if size == "batch" else size for size in self.shape)


@dataclass(frozen=True)
class Explicit:
    """A module from (x, *noise) to (score, label), with its inputs and outputs."""

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def noise(self) -> tuple[Port, ...]:
        """The inputs after the examples."""
        return self.inputs[1:]
