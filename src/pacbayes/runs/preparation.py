"""A run before training: which examples its bound is on, and its prior, drawn or learned."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from pydantic import BaseModel
from torch import Tensor

from pacbayes.data import Dataset
from pacbayes.data.checks import check_sample
from pacbayes.files import file_sha256, load_tensors, save_json, save_tensors, tensors_sha256
from pacbayes.networks.network import build_network
from pacbayes.runs.folder import CHECKPOINT_SECONDS, Run, open_run
from pacbayes.runs.record import DataRecord, DataSource, RunRecord, versions
from pacbayes.settings import Settings
from pacbayes.training.loop import Progress
from pacbayes.training.priors import Teacher, as_prior, split

__all__ = ["prepare", "prior_steps", "withdraw"]

_LEARNING = "learning.safetensors"
_OF_LEARNING = ("prior_epochs", "prior_rate", "prior_augmentation")  # idle with a data-free prior


def prior_steps(
    folder: Path, settings: Settings, source: DataSource, data: Dataset
) -> Iterator[Progress]:
    """Learn the prior from its part of the data, saving as it goes; nothing where there is none."""
    if not settings.prior_fraction or (folder / "run.json").exists():
        return
    check_sample(*data.tensors("train"), repeats=settings.repeats)
    wanted, own, _ = _wanted(settings, source, data)
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"asked": _asked(settings, wanted)}
    teacher, saved = _teacher(folder, settings, data, own, asked), -math.inf
    for progress in teacher.steps():
        epoch_over = progress.batch == progress.batches
        if epoch_over and (teacher.finished or time.monotonic() - saved > CHECKPOINT_SECONDS):
            tensors, record = teacher.state()
            save_tensors(folder / _LEARNING, tensors, record | asked)
            saved = time.monotonic()
        yield progress


def prepare(folder: Path, settings: Settings, source: DataSource, data: Dataset) -> Run:
    """Create a run, or open the one that is there if it was asked for in the same way."""
    wanted, own, bound_index = _wanted(settings, source, data)
    if (folder / "run.json").exists():
        run = open_run(folder)
        if differing := [
            *_difference(run.settings, settings, () if settings.prior_fraction else _OF_LEARNING),
            *_difference(run.record.data, wanted, ("names",)),  # older runs have none
        ]:
            raise ValueError(
                f"{folder} holds another run ({', '.join(differing)}); "
                "give another --out, or remove it first"
            )
        run.load_prior()
        return run
    if (folder / "sweep.json").exists():
        raise ValueError(f"{folder} is a store of reproduce's runs; give another --out")
    new = not folder.exists()
    if own is None:
        check_sample(*data.tensors("train"), repeats=settings.repeats)
        network = build_network(settings, wanted.features, len(wanted.classes))
    else:
        for _ in prior_steps(folder, settings, source, data):
            pass
        asked = {"asked": _asked(settings, wanted)}
        network = as_prior(_teacher(folder, settings, data, own, asked), settings)
    prior = {k: v for k, v in network.state_dict().items() if "prior_" in k}
    folder.mkdir(parents=True, exist_ok=True)
    path, split_path = folder / "prior.safetensors", folder / "split.safetensors"
    try:
        if bound_index is not None:
            save_tensors(split_path, bound_index)
        save_tensors(path, prior)
        record = RunRecord(
            settings=settings, data=wanted, prior_sha256=file_sha256(path), versions=versions()
        )
        save_json(folder / "run.json", record.model_dump(mode="json"))
    except BaseException:
        path.unlink(missing_ok=True)
        split_path.unlink(missing_ok=True)
        if new and own is None:
            folder.rmdir()
        raise
    (folder / _LEARNING).unlink(missing_ok=True)
    return Run(folder, record)


def withdraw(run: Run) -> None:
    """Take back a run that came to nothing before its first checkpoint: another may have its
    folder, and would come to something where this one never will.
    """
    if (run.folder / "checkpoint.safetensors").exists():
        return
    for name in ("run.json", "prior.safetensors", "split.safetensors"):
        (run.folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # others' files are in it
        run.folder.rmdir()


def _wanted(
    settings: Settings, source: DataSource, data: Dataset
) -> tuple[DataRecord, Tensor | None, dict[str, Tensor] | None]:
    """What run.json will say of the data, the prior's own examples, and the bound set's."""
    count, own, bound_index = len(data.x_train), None, None
    if settings.prior_fraction:
        own, bound = map(torch.from_numpy, split(count, settings.prior_fraction, settings.seed))
        bound_index, count = {"bound": bound}, len(bound)
    record = DataRecord(
        source=source,
        train_sha256=data.train_sha256,
        n=count,
        split_sha256=None if bound_index is None else tensors_sha256(bound_index),
        features=data.x_train.shape[1],
        classes=data.classes,
        names=data.names,
    )
    return record, own, bound_index


def _asked(settings: Settings, wanted: DataRecord) -> str:
    """What a prior that is being learned is for."""
    return settings.model_dump_json() + wanted.model_dump_json()


def _teacher(
    folder: Path, settings: Settings, data: Dataset, own: Tensor | None, asked: dict[str, str]
) -> Teacher:
    """The prior's training where it stands."""
    x, y = data.tensors("train")
    teacher = Teacher(x[own].contiguous(), y[own].contiguous(), settings, len(data.classes))
    path = folder / _LEARNING
    if path.exists():
        tensors, record = load_tensors(path)
        if record.get("asked") != asked["asked"]:
            raise ValueError(f"{folder} holds another run's prior; give another --out or remove it")
        teacher.restore(tensors, record)
    return teacher


def _difference(have: BaseModel, want: BaseModel, aside: Sequence[str] = ()) -> list[str]:
    names = [name for name in type(want).model_fields if name not in aside]
    pairs = ((name, getattr(have, name), getattr(want, name)) for name in names)
    return [f"{name} {a} there, {b} asked for" for name, a, b in pairs if a != b]
