"""What a run folder says of itself, validated when it is read."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

import pacbayes
from pacbayes.data import Dataset, load
from pacbayes.engine.library import available
from pacbayes.settings import Settings

__all__ = ["DataRecord", "DataSource", "RunRecord", "processor", "versions"]


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
    """What the run's data were."""

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


def versions() -> dict[str, str]:
    """What bit-identical results depend on, beside the seed."""
    return {
        "pacbayes": pacbayes.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),  # MKL rounds sums by its maker, too
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "engine": "native" if available() else "torch",
    }


def processor() -> str:
    """Its name, as the system gives it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
