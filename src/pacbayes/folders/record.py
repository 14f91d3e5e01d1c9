"""The contents of run.json, validated when read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pacbayes.certificates.explanation import layer_of
from pacbayes.data import DataSource
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.networks.modules import Convolutions, ModuleArchitecture
from pacbayes.networks.stochastic import Start
from pacbayes.settings import Settings

__all__ = ["DataRecord", "ModuleRecord", "RunRecord"]

_CONVOLUTION = 4  # dimensions of its weights


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


class ModuleRecord(BaseModel):
    """A network other than dense: what builds its module, and every tensor that predicts.

    Attributes:
        shape: of an example, which the module is called with.
        weights: the Gaussians of Q, in the order in which a data-free prior is drawn.
        frozen: shapes of the tensors outside Q, by name; their values are saved with the prior.
        groups: the class of every finer class that the module has scores of; empty if it has
            scores of the classes themselves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    architecture: ModuleArchitecture
    shape: tuple[int, ...]
    weights: tuple[Start, ...] = ()
    frozen: dict[str, tuple[int, ...]] = {}
    groups: tuple[int, ...] = ()


class RunRecord(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    settings: Settings
    data: DataRecord
    network: ModuleRecord | None = None  # None: dense, as the settings say
    prior_sha256: str
    versions: dict[str, str]

    @model_validator(mode="after")
    def _groups_are_classes(self) -> RunRecord:
        groups = () if self.network is None else self.network.groups
        if groups and set(groups) != set(range(len(self.data.classes))):
            raise ValueError(
                f"finer classes must belong to all classes and no others, got {groups}"
            )
        return self

    @property
    def layer_names(self) -> dict[str, str]:
        """Better names for a module's layers than those of their tensors, which `layer_of` has."""
        return {} if self.network is None else _layer_names(self.network)

    @property
    def title(self) -> str:
        """The network in a few words."""
        if self.network is not None:
            return self.network.architecture.title
        s = self.settings
        dense = DenseArchitecture.of(s, self.data.features, len(self.data.classes))
        return f"{'-'.join(map(str, dense.sizes))} {s.activation if s.widths else 'linear'}"


def _layer_names(network: ModuleRecord) -> dict[str, str]:
    """Number convolutions and dense layers; leave out the step that gives examples their shape."""
    names: dict[str, str] = {}
    body = [s for s in network.weights if s.name.startswith("body.")]
    if isinstance(network.architecture, Convolutions):
        for s in (s for s in body if s.name.endswith(".weight")):
            kind = "convolution" if len(s.shape) == _CONVOLUTION else "dense layer"
            count = sum(name.startswith(kind) for name in names.values())
            names[layer_of(s.name)] = f"{kind} {count + 1}"
    elif len(network.shape) > 1:
        layers = [layer_of(s.name) for s in body]
        names = {x: f"module {x.removeprefix('module 1').lstrip('.')}".strip() for x in layers}
    return names
