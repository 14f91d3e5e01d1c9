"""Runs of the paper's baselines, mlp and PBGNet, which are not networks of this library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from pacbayes.baselines.fitting import Fitting
from pacbayes.baselines.mlp import MLP, MLPFitting
from pacbayes.baselines.pbgnet import PBGFitting, PBGNet
from pacbayes.data import load
from pacbayes.data.tasks import Binary
from pacbayes.experiments.columns import Configuration
from pacbayes.experiments.store import Summary
from pacbayes.files import DamagedFileError, load_tensors, save_json, save_tensors
from pacbayes.randomness import permutation, seeded
from pacbayes.runs.versions import versions
from pacbayes.training.checkpoints import restore
from pacbayes.training.loop import run_to_end

__all__ = ["BASELINES", "VOTES", "baseline_summary", "examples"]

BASELINES = ("mlp", "pbg", "pbg-full")
VOTES = 100  # T of the test error where the output is not biased in T
Examples = tuple[Tensor, Tensor]


def baseline_summary(configuration: Configuration, place: Path, attempts: int) -> Summary:
    """Train a baseline, resetting it while it learns nothing, and summarise the last attempt."""
    train, (x, y) = examples(configuration)
    fitting, attempt, seconds = _last_attempt(configuration.starts(attempts), place, train)
    fitting.model.load_state_dict(fitting.model.state_dict() | fitting.best)
    best = min(fitting.history, key=lambda e: e.guide)
    save_json(place / "history.json", [asdict(e) for e in fitting.history])
    with seeded(fitting.settings.seed, "prediction"):
        T = fitting.evaluation_samples if fitting.biased else VOTES
        error = Binary().wrong(fitting.outputs(x, T), y).double().mean().item()
    bound, kl = (None, None) if configuration.column == "mlp" else (best.bound, best.kl)
    return Summary(
        learned=not fitting.hopeless,
        epoch=best.epoch,
        train_linear=best.risk,
        bound=bound,
        kl=kl,
        test_zero_one=error,
        vote_zero_one=None,
        small_kl=None,
        certificate=None,
        seconds=seconds,
        attempts=attempt + 1,
        versions=versions(),
    )


def _last_attempt(
    starts: Sequence[Configuration], place: Path, train: Examples
) -> tuple[Fitting, int, float]:
    """Train until an attempt learns, or the last one ends.

    Returns:
        That attempt, its number from 0, and the seconds of all attempts.
    """
    seconds = 0.0
    *early, last = starts
    for start in early:
        try:
            fitting = _trained(start, place, train)
        except FloatingPointError:
            continue
        seconds += fitting.seconds
        if not fitting.hopeless:
            return fitting, start.attempt, seconds
    fitting = _trained(last, place, train)
    return fitting, last.attempt, seconds + fitting.seconds


def examples(configuration: Configuration) -> tuple[Examples, Examples]:
    """Return training and test examples.

    PBGNet's published code pools the two and keeps a quarter for testing. The paper ran that code
    and says that it used all training images; its printed bound, loss and KL agree with each other
    at n = 52 500 and not at 60 000 (docs/paper.md, item 11).
    """
    data = load(configuration.dataset)
    train, test = data.tensors("train"), data.tensors("test")
    if configuration.column != "pbg":
        return train, test
    x, y = torch.cat([train[0], test[0]]), torch.cat([train[1], test[1]])
    with seeded(configuration.repeat, "split"):
        order = permutation(len(x))
    ours, theirs = order[: 3 * len(x) // 4], order[3 * len(x) // 4 :]
    return (x[ours], y[ours]), (x[theirs], y[theirs])


def _fitting(configuration: Configuration, train: Examples) -> Fitting:
    settings, inputs = configuration.settings(), train[0].shape[1]
    with seeded(settings.seed, "prior"):
        if configuration.column == "mlp":
            return MLPFitting(MLP(inputs, settings.widths), *train, settings)
        return PBGFitting(PBGNet(inputs, settings.widths), *train, settings)


def _trained(configuration: Configuration, place: Path, train: Examples) -> Fitting:
    """Train from the last checkpoint to the end."""
    path = place / f"checkpoint-{configuration.attempt}.safetensors"
    fitting = _restored(configuration, path, train)
    for _ in run_to_end(fitting, lambda: save_tensors(path, *fitting.state())):
        pass
    return fitting


def _restored(configuration: Configuration, path: Path, train: Examples) -> Fitting:
    """Return the state of the checkpoint, or a new one if there is none that can be used."""
    fitting = _fitting(configuration, train)
    if not path.exists():
        return fitting
    try:
        restore(fitting, path, *load_tensors(path))
        return fitting
    except DamagedFileError:
        path.unlink()  # cut short, or of another version
    return _fitting(configuration, train)
