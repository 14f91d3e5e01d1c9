"""Prepare a run: choose the examples of its bound, and draw or learn its prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel
from torch import Tensor

from pacbayes.data import DataError, Dataset, DataSource
from pacbayes.data.dataset import LEAST_EXAMPLES
from pacbayes.data.encoding import Encoding
from pacbayes.data.source import Tables
from pacbayes.data.tasks import task_of
from pacbayes.defaults import for_module, for_table
from pacbayes.devices import CPU, device_named
from pacbayes.files import (
    file_sha256,
    load_tensors,
    remove_parts,
    save_json,
    save_tensors,
    tensors_sha256,
)
from pacbayes.folders.folder import (
    FEATURES,
    Run,
    featured,
    features_sha256,
    open_run,
    save_features,
)
from pacbayes.folders.leases import writing
from pacbayes.folders.record import DataRecord, ModuleRecord, RunRecord, versions
from pacbayes.networks.modules import Convolutions, OwnModule
from pacbayes.networks.network import Network
from pacbayes.settings import OF_LEARNING, Settings
from pacbayes.training.blueprint import CODE, Blueprint, Choice, Named, chosen, save_copy
from pacbayes.training.checkpoints import restore
from pacbayes.training.loop import Progress, run_to_end
from pacbayes.training.priors import PlainTraining, Teacher

__all__ = ["create", "learn_again", "prepare", "prior_steps", "record_run", "withdraw"]

_LEARNING = "learning.safetensors"
_CREATED = ("run.json", "prior.safetensors", "split.safetensors", FEATURES, CODE)


@dataclass(frozen=True)
class _Plan:
    """What a run will be: its record of the data, and the two parts of the examples."""

    record: DataRecord
    blueprint: Blueprint
    own: Tensor | None = None  # the prior's examples, if it learns
    bound: dict[str, Tensor] | None = None  # the other ones' indices, as saved
    plain: bool = True  # features are columns as they are

    def request(self, settings: Settings) -> str:
        """Return what a prior is learned for, in one string."""
        asked = settings.model_dump_json() + self.record.model_dump_json()
        architecture = self.blueprint.architecture
        return asked if architecture is None else asked + architecture.model_dump_json()


def prior_steps(
    folder: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None = None,
    *,
    device: str | torch.device = CPU,
) -> Iterator[Progress]:
    """Learn the prior from its part of the data, saving along the way.

    Nothing happens where the prior is data-free, or was learned before.
    """
    with writing(folder):
        if settings.prior_fraction and not (folder / "run.json").exists():
            plan = _plan(folder, settings, source, data, network)
            yield from _learning(folder, settings, data, plan, device_named(device))


def _learning(
    folder: Path, settings: Settings, data: Dataset, plan: _Plan, device: torch.device
) -> Iterator[Progress]:
    if not (folder / _LEARNING).exists():
        _remarks(settings, data)
    teacher = _teacher(folder, settings, data, plan, device)
    owner = {"asked": plan.request(settings)}

    def save() -> None:
        tensors, record = teacher.state()
        save_tensors(folder / _LEARNING, tensors, record | owner)

    yield from run_to_end(teacher, save)


def prepare(
    folder: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None = None,
    *,
    device: str | torch.device = CPU,
) -> Run:
    """Create a run, or open the one in the folder if it has the same settings and data.

    Args:
        network: what `chosen` returns for a network that is not dense.
        device: where a prior learns, and the run will be trained.
    """
    with writing(folder):
        return _prepared(folder, settings, source, data, network, device_named(device))


def _prepared(
    folder: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None,
    device: torch.device,
) -> Run:
    plan = _plan(folder, settings, source, data, network)
    remove_parts(folder)
    if (folder / "run.json").exists():
        return _reopened(folder, settings, plan)
    if (folder / "sweep.json").exists():
        raise ValueError(f"{folder} is a store of `pacbayes reproduce`; choose another --out")
    remarks = _remarks(settings, data)
    if plan.own is None:
        made = plan.blueprint.build()
    else:
        for _ in prior_steps(folder, settings, source, data, network, device=device):
            pass
        teacher = _teacher(folder, settings, data, plan, device)
        if not teacher.finished:
            raise RuntimeError(f"{folder}: the prior has not finished learning; run it again")
        made = plan.blueprint.as_prior(teacher)
    try:
        record = plan.record.model_copy(update={"remarks": remarks})
        plan = replace(plan, record=record)
        return _created(folder, settings, plan, made, data.encoding, device)
    except BaseException:
        with suppress(OSError):  # the error that counts is the first
            _remove(folder)
        raise


def record_run(
    folder: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Network,
    choice: Choice | None = None,
) -> Run:
    """Create a run of a network that was trained elsewhere on these data, with its prior.

    Args:
        choice: what it was built from, if it is not dense.
    """
    plan = _plan(folder, settings, source, data, choice)
    return _created(folder, settings, plan, network, data.encoding)


def learn_again(run: Run, data: Dataset) -> dict[str, NDArray[np.float32]]:
    """Learn a run's prior again from its part of the data; return its tensors by name."""
    settings = run.settings
    if not settings.prior_fraction:
        raise ValueError(
            f"the prior of {run.folder} is data-free; verify draws it again in any case"
        )
    own = data.split(settings.prior_fraction, settings.seed)[0]
    blueprint = run.blueprint
    x, y = _lesson(data, own, blueprint)
    teacher = blueprint.teacher(x, y)
    for _ in teacher.steps():
        pass
    state = blueprint.as_prior(teacher).prior_state()
    return {name: tensor.numpy() for name, tensor in state.items()}


def _remarks(settings: Settings, data: Dataset) -> tuple[str, ...]:
    """Refuse examples that are not an independent sample; return remarks on unusual ones."""
    s = settings
    return tuple(data.remarks(s.prior_fraction, s.seed, repeats=s.repeats))


def _created(
    folder: Path,
    settings: Settings,
    plan: _Plan,
    network: Network,
    encoding: Encoding | None,
    device: torch.device = CPU,
) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    if encoding is not None:
        save_features(folder, encoding)
    if plan.bound is not None:
        save_tensors(folder / "split.safetensors", plan.bound)
    if plan.blueprint.code is not None:
        save_copy(folder, plan.blueprint.code)
    path = folder / "prior.safetensors"
    save_tensors(path, network.prior_state())
    record = RunRecord(
        settings=settings,
        data=plan.record,
        network=plan.blueprint.record(network),
        prior_sha256=file_sha256(path),
        versions=versions(device),
    )
    save_json(folder / "run.json", record.model_dump(mode="json"))
    (folder / _LEARNING).unlink(missing_ok=True)
    return Run(folder, record)


def _reopened(folder: Path, settings: Settings, plan: _Plan) -> Run:
    run = open_run(folder)
    (folder / _LEARNING).unlink(missing_ok=True)  # a kill may have left it
    idle = () if settings.prior_fraction else OF_LEARNING
    have, want = (_located(record, folder) for record in (run.record.data, plan.record))
    newer = ["names", "remarks", "label"]  # older runs have none
    if have.features_sha256 is None and plan.plain:
        newer.append("features_sha256")
    differing = [
        *_difference(run.settings, settings, idle),
        *_difference(have, want, newer),
        *_other_network(run.record.network, plan.blueprint),
    ]
    if differing:
        raise ValueError(
            f"{folder} holds another run ({', '.join(differing)}); "
            "choose another --out, or remove that run first"
        )
    run.load_prior()
    return run


def _other_network(have: ModuleRecord | None, want: Blueprint) -> list[str]:
    found = None if have is None else have.architecture
    if found == want.architecture:
        return []
    return [f"network is {_name(found)}, requested {_name(want.architecture)}"]


def _name(architecture: Convolutions | OwnModule | None) -> str:
    if isinstance(architecture, OwnModule):
        return f"{architecture.title} (SHA-256 {architecture.sha256[:12]}…)"
    return "dense" if architecture is None else architecture.title


def _located(record: DataRecord, folder: Path) -> DataRecord:
    """Return a record with absolute paths, by which older ones are compared too."""
    return record.model_copy(update={"source": record.source.located(folder)})


def withdraw(run: Run) -> None:
    """Remove a run that failed before its first checkpoint, to free its folder."""
    if (run.folder / "checkpoint.safetensors").exists():
        return
    with suppress(OSError):  # it may hold other files
        _remove(run.folder)
        run.folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove the files that begin a run."""
    for name in _CREATED:
        (folder / name).unlink(missing_ok=True)


def _plan(
    folder: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None = None,
) -> _Plan:
    own, bound = None, None
    count = len(data.x_train)
    if settings.prior_fraction:
        own, rest = map(torch.from_numpy, data.split(settings.prior_fraction, settings.seed))
        bound, count = {"bound": rest}, len(rest)
    if data.groups is not None:
        chosen = data.groups if bound is None else data.groups[bound["bound"]]
        count = check_groups(len(np.unique(chosen)))
    record = DataRecord(
        source=source.seen_from(folder),
        train_sha256=data.train_sha256,
        n=count,
        split_sha256=None if bound is None else tensors_sha256(bound),
        features=data.x_train.shape[1],
        classes=data.classes,
        features_sha256=features_sha256(data.encoding),
        label=_label(data),
        shape=data.shape if settings.prior_smooth else None,
        names=data.names,
    )
    blueprint = Blueprint(settings, record.features, len(data.classes), shape=record.shape or ())
    if network is not None:
        _refuse_basis(settings)
        shape = data.shape or (record.features,)
        blueprint = replace(
            blueprint, architecture=network.architecture, shape=shape, code=network.code
        )
    if settings.prior_finer:
        blueprint = replace(blueprint, groups=_classes_of_finer(data, network))
    plain = data.encoding is None or data.encoding.plain
    return _Plan(record, blueprint, own, bound, plain)


def _refuse_basis(settings: Settings) -> None:
    """Raise ValueError if settings have a basis or a smooth prior, which are for dense networks."""
    for name, idle in (("basis", "none"), ("prior_smooth", 0.0)):
        if getattr(settings, name) != idle:
            raise ValueError(f"{name} is for dense networks; leave it out")


def _classes_of_finer(data: Dataset, network: Choice | None) -> tuple[int, ...]:
    """Return the class of every finer class; raise DataError if a prior cannot learn them."""
    if network is None:
        raise DataError("finer classes need a network other than dense, such as --network conv")
    if data.finer is None:
        raise DataError(
            f"{data.name} has no finer classes than {', '.join(data.classes[:5])}; leave out "
            "--prior-finer, or prior_finer="
        )
    return data.finer.groups


def check_groups(count: int) -> int:
    """Return a number of groups in the bound set; raise DataError if it is too small."""
    if count < LEAST_EXAMPLES:
        raise DataError(
            f"the bound set has {count} groups; at least {LEAST_EXAMPLES} are needed, since n "
            "counts groups"
        )
    return count


def _label(data: Dataset) -> str | None:
    return None if data.rows is None or data.rows.label is None else data.rows.label.name


def _teacher(
    folder: Path, settings: Settings, data: Dataset, plan: _Plan, device: torch.device
) -> Teacher | PlainTraining:
    """Return the prior's training, restored from its checkpoint if there is one."""
    assert plan.own is not None
    x, y = (tensor.to(device) for tensor in _lesson(data, plan.own, plan.blueprint))
    teacher = plan.blueprint.teacher(x, y)
    path = folder / _LEARNING
    if path.exists():
        tensors, record = load_tensors(path)
        if not isinstance(record, dict) or record.get("asked") != plan.request(settings):
            raise ValueError(
                f"{folder} holds a half-learned prior of another run; choose another --out, "
                f"or remove {path.name}"
            )
        restore(teacher, path, tensors, record)
    return teacher


def _lesson(
    data: Dataset, own: Tensor | NDArray[np.int64], blueprint: Blueprint
) -> tuple[Tensor, Tensor]:
    """Return the examples that a prior learns from, with their classes or finer classes."""
    x, y = data.tensors("train")
    if blueprint.groups:
        assert data.finer is not None
        y = task_of(len(blueprint.groups)).encode(torch.from_numpy(data.finer.labels))
    return x[own].contiguous(), y[own].contiguous()


def _difference(have: BaseModel, want: BaseModel, aside: Sequence[str] = ()) -> list[str]:
    names = [name for name in type(want).model_fields if name not in aside]
    pairs = ((name, getattr(have, name), getattr(want, name)) for name in names)
    return [f"{name} is {a}, requested {b}" for name, a, b in pairs if a != b]


def create(
    folder: str | Path,
    network: Named,
    data: str | Path | DataSource,
    settings: Settings | Mapping[str, Any] | None = None,
) -> Run:
    """Prepare a run, as `Run.create` says."""
    source = data if isinstance(data, DataSource) else DataSource(str(data))
    source.check()
    dense = network is None or network == "dense"
    if isinstance(settings, Settings):
        whole = settings if dense else _for_module(settings)
        read = source.read()
    else:
        read = source.read()
        whole = _usual(read, dict(settings or {}), dense=dense, table=source.is_table)
    examples = featured(read, whole)
    choice = chosen(network, learned=bool(whole.prior_fraction), shape=examples.shape or ())
    return prepare(Path(folder), whole, source, examples, choice)


def _for_module(settings: Settings) -> Settings:
    """Return the settings without widths, which a module has itself; refuse what it cannot have."""
    if settings.activation != "relu" or settings.protocol != "fast":
        raise ValueError(
            f"activation {settings.activation} and protocol {settings.protocol} are for dense "
            "networks; a module takes relu and fast"
        )
    return settings.model_copy(update={"widths": ()})


def _usual(
    read: Dataset | Tables, changes: dict[str, Any], *, dense: bool, table: bool
) -> Settings:
    """Return the default settings for data and network, with changes."""
    n, groups = len(read.y_train), read.groups
    if not dense:
        changes = for_module(n, changes)
    elif table:
        changes = for_table(n, changes, None if groups is None else len(set(groups.tolist())))
    found = Settings.of(classes=len(read.classes), **changes)
    return found if dense else _for_module(found)
