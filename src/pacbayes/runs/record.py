"""The contents of run.json, validated when read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pacbayes.data import DataSource
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.settings import Settings

__all__ = ["DataRecord", "RunRecord"]


class DataRecord(BaseModel):
    """The data of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: DataSource
    train_sha256: str
    n: int = Field(ge=1)  # examples in the bound set
    split_sha256: str | None = None  # of split.safetensors, where the prior had a part of its own
    features: int = Field(ge=1)
    classes: tuple[str, ...] = Field(min_length=2)
    features_sha256: str | None = None  # of features.json, where the data are a table
    label: str | None = None  # label column of a table
    names: tuple[str, ...] | None = None  # of the features, where they have any
    remarks: tuple[str, ...] = ()  # on what is unusual in the examples, but allowed


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
