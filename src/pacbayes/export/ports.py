"""An exported predictor: a module, and what goes in and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from pacbayes.data.frame import Kind

__all__ = ["Explicit", "Port", "RawColumn", "Shape"]

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
class RawColumn:
    """A column of the run's table.

    Attributes:
        codes: of the texts that the encoding knows and of missing values; empty for numbers.
        other: the code of any other text.
    """

    name: str
    kind: Kind
    codes: dict[str, int] = field(default_factory=dict)
    other: int = 0

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers."""
        return self.kind is Kind.NUMBER


@dataclass(frozen=True)
class Explicit:
    """A module from (x, *noise) to (score, label), with its inputs and outputs.

    Attributes:
        columns: those of `x`, if it has rows of a table: numbers, and codes of texts.
    """

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    columns: tuple[RawColumn, ...] = ()

    @property
    def noise(self) -> tuple[Port, ...]:
        """The inputs after the examples."""
        return self.inputs[1:]
