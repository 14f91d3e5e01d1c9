"""The contents of run.json, of every kind of folder, validated when read."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import pacbayes
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.explanation import layer_of
from pacbayes.data import DataSource
from pacbayes.data.layout import Layout
from pacbayes.devices import CPU
from pacbayes.engine.library import available
from pacbayes.files import (
    CLASSIFIER,
    KERNEL,
    NETWORK,
    damaged,
    kind_of,
    load_versioned,
)
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.networks.kernel import KernelPrior
from pacbayes.networks.modules import Convolutions
from pacbayes.settings import Settings
from pacbayes.training.blueprint import ModuleRecord
from pacbayes.training.kernel import KernelSettings

__all__ = [
    "CLASSIFIER",
    "FOLDER_FILES",
    "KERNEL",
    "NETWORK",
    "ClassifierRecord",
    "DataRecord",
    "KernelRecord",
    "ModuleRecord",
    "RunRecord",
    "kind_of",
    "processor",
    "read_manifest",
    "read_record",
    "versions",
]

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
    shape: tuple[int, ...] | None = None  # of an image, where the prior expects smooth ones
    names: tuple[str, ...] | None = None  # of the features, where they have any
    remarks: tuple[str, ...] = ()  # on what is unusual in the examples, but allowed


class _Manifest(BaseModel):
    """What the run.json of every folder says first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["network", "kernel", "classifier"]
    format: Literal[1] = 1


class RunRecord(_Manifest):
    """The run.json of a network, whose folders did not name their kind before version 1.1."""

    kind: Literal["network"] = "network"
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
        sizes = self.data.features, len(self.data.classes), self.data.shape
        dense = DenseArchitecture.of(s, *sizes)
        title = f"{'-'.join(map(str, dense.sizes))} {s.activation if s.widths else 'linear'}"
        title += " in the eigenbasis" if s.basis == "eigen" else ""
        return title + (f", smooth prior {s.prior_smooth:g}" if s.prior_smooth else "")


class KernelRecord(_Manifest):
    """The run.json of a kernel network, whose prior is the formulas that it names.

    Attributes:
        prior_sha256: hash of these formulas and their versions.
    """

    kind: Literal["kernel"] = "kernel"
    prior: KernelPrior
    settings: KernelSettings
    data: DataRecord
    repeats: bool = False
    prior_sha256: str
    versions: dict[str, str]

    @property
    def layer_names(self) -> dict[str, str]:
        """Better names for parts of the KL."""
        return {"head": f"{self.settings.directions} directions at most"}

    @property
    def title(self) -> str:
        """The network in a few words."""
        return f"kernel {self.prior.kernel} on {self.prior.features}"


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


RUN, CERTIFICATE, EVIDENCE, MODELS = (
    "run.json",
    "certificate.json",
    "evidence.safetensors",
    "models.skops",
)
FOLDER_FILES = (RUN, CERTIFICATE, EVIDENCE, MODELS, "data.*", "test.json", "report.html")


class ClassifierRecord(_Manifest):
    """The run.json of a `CertifiedClassifier`.

    Attributes:
        classes: their names, in the order of indices.
        n: number of examples, the bound set included.
        seed, fraction, grouped: how the bound set is drawn.
        choose, chosen: how the predictor was chosen, and its name.
        shares: each candidate's share of δ.
        claims: what is claimed of each candidate.
        costs: the cost of answering the class in column j to one in row i, if errors are not equal.
        loss: the loss without costs: error, or top-K.
        repeats, deduplicated: whether copies were declared natural, or removed.
        mean: weights of candidates in their mean; 1 where there is none.
        x_sha256: hash of the features of all examples.
        layout: columns of the table.
        source: file or data set that the examples came from, relative to the folder.
        files: SHA-256 of the other files, except the certificate.
    """

    kind: Literal["classifier"] = "classifier"
    classes: tuple[str, ...] = Field(min_length=2)
    n: int = Field(ge=2)
    seed: int
    fraction: float | Literal["auto"]
    grouped: bool
    choose: Literal["bound", "cross-validation", "vote"]
    chosen: str
    shares: dict[str, float]
    claims: tuple[str, ...]
    costs: tuple[tuple[float, ...], ...] | None = None
    loss: str = "error"
    repeats: bool
    deduplicated: bool = False
    mean: dict[str, float] = {}
    x_sha256: str
    layout: Layout | None
    source: str | None = None
    files: dict[str, str]
    versions: dict[str, str]

    @property
    def assumptions(self) -> Assumptions:
        """What the certificates take on trust."""
        return Assumptions(
            repeats=self.repeats,
            deduplicated=self.deduplicated,
            split_seed=self.seed,
            group="" if self.grouped else None,
            covers="candidates",
        )


_RECORDS: dict[str, type[RunRecord | KernelRecord | ClassifierRecord]] = {
    NETWORK: RunRecord,
    KERNEL: KernelRecord,
    CLASSIFIER: ClassifierRecord,
}


def read_manifest(folder: Path) -> RunRecord | KernelRecord | ClassifierRecord:
    """Return the contents of a folder's run.json, of whatever kind the folder is."""
    kind, path = kind_of(folder), folder / RUN
    try:
        return _RECORDS[kind].model_validate(load_versioned(path, 1))
    except ValidationError as error:
        raise damaged(path, error) from error


def read_record(folder: Path) -> ClassifierRecord:
    """Return the record in a classifier's folder."""
    record = read_manifest(folder)
    if not isinstance(record, ClassifierRecord):
        raise ValueError(f"{folder} holds a network, not a classifier")
    return record


def versions(device: torch.device = CPU) -> dict[str, str]:
    """Return everything that the last bits of a result depend on; a device if not the CPU."""
    other = {} if device.type == "cpu" else {"device": _device_name(device)}
    return {
        "pacbayes": pacbayes.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),  # MKL rounds sums differently on each make
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "engine": "native" if available() else "torch",
        **other,
    }


def _device_name(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    return f"cuda {torch.version.cuda}, {torch.cuda.get_device_name(device)}"


def processor() -> str:
    """Return the processor's name, as the system gives it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
