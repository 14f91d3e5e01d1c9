"""The contents of run.json, validated when read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pacbayes.data import Dataset, load
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.settings import Settings

__all__ = ["DataRecord", "DataSource", "RunRecord"]


@dataclass(frozen=True)
class DataSource:
    """Where a run's data come from: the arguments of `data.load`."""

    name: str
    folder: str | None = None
    test: str | None = None
    label: str | None = None

    def __str__(self) -> str:
        given = {"folder": self.folder, "test": self.test, "label": self.label}
        return ", ".join([self.name, *(f"{k} {v}" for k, v in given.items() if v is not None)])

    def load(self) -> Dataset:
        folder = None if self.folder is None else Path(self.folder)
        test = None if self.test is None else Path(self.test)
        return load(self.name, folder=folder, test=test, label=self.label)


class DataRecord(BaseModel):
    """The data of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: DataSource
    train_sha256: str
    n: int = Field(ge=1)  # examples in the bound set
    split_sha256: str | None = None  # of split.safetensors, where the prior had a part of its own
    features: int = Field(ge=1)
    classes: tuple[str, ...] = Field(min_length=2)
    names: tuple[str, ...] | None = None  # of the features, where they have any


class RunRecord(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    settings: Settings
    data: DataRecord
    prior_sha256: str
    versions: dict[str, str]

    @property
    def architecture(self) -> DenseArchitecture:
        """What the run's network is, from which it can be built again."""
        return DenseArchitecture.of(self.settings, self.data.features, len(self.data.classes))
