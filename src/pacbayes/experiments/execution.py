"""One configuration, run to its end in its folder: train, resume, evaluate, summarise."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from pacbayes import paper
from pacbayes.baselines.mlp import MLP, MLPFitting
from pacbayes.baselines.pbgnet import PBGFitting, PBGNet
from pacbayes.bounds import small_kl
from pacbayes.certificates.certificate import certify
from pacbayes.data import load
from pacbayes.experiments.columns import Configuration
from pacbayes.experiments.store import Store, Summary
from pacbayes.files import DamagedFileError, load_tensors, save_json, save_tensors
from pacbayes.networks.losses import zero_one
from pacbayes.networks.network import Network, build_network
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.randomness import seeded
from pacbayes.runs.record import versions
from pacbayes.training.loop import Evaluation, Loop
from pacbayes.training.trainer import Trainer

__all__ = ["run"]

_CHECKPOINT_SECONDS = 20.0
_ATTEMPTS = 5  # each with a prior of its own, for which certificates pay
_ONE_AT_A_TIME = threading.Lock()
_VOTES = 100


def run(configuration: Configuration, store: Store) -> Literal["done", "failed", "busy"]:
    """Make a run unless it is made, or somebody else is at it.

    On one thread, since torch's sums depend on how many there are, and one at a time in a process,
    since its generator is the process's.
    """
    with _ONE_AT_A_TIME, store.lease(configuration) as ours:
        if store.summary(configuration) is not None:
            return "done"
        if not ours:
            return "busy"
        if store.diverged(configuration):
            return "failed"
        torch.set_num_threads(1)
        try:
            summary = _summarised(configuration, store.place(configuration))
        except Exception as error:  # whatever it is, the other runs go on
            store.fail(configuration, f"{type(error).__name__}: {error}")
            return "failed"
        store.finish(configuration, summary)
    return "done"


def _summarised(configuration: Configuration, place: Path) -> Summary:
    (x, y), test = _examples(configuration)
    seconds, last = 0.0, _ATTEMPTS if configuration.repeat else 1  # the grid keeps its failures
    current = configuration
    while True:
        over = current.attempt + 1 == last
        try:
            loop = _trained(current, place, x, y)
            seconds += loop.seconds
            if over or not loop.hopeless:
                break
        except FloatingPointError:
            if over:
                raise
        current = current.reset()
    loop.model.load_state_dict(loop.model.state_dict() | loop.best)
    best = min(loop.history, key=lambda e: e.guide)
    save_json(place / "history.json", [asdict(e) for e in loop.history])
    return replace(_summary(loop, best, test, current), seconds=seconds)


def _examples(configuration: Configuration) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """To train on, and to test on.

    PBGNet's published code pools the two and keeps a quarter for testing. The paper ran that code
    and says that it used all training images; its printed bound, loss and KL agree with one another
    at n = 52 500 and not at 60 000 (docs/paper.md, item 11).
    """
    data = load(configuration.dataset)
    train, test = data.tensors("train"), data.tensors("test")
    if configuration.column != "pbg":
        return train, test
    x, y = torch.cat([train[0], test[0]]), torch.cat([train[1], test[1]])
    with seeded(configuration.repeat, "split"):
        order = torch.randperm(len(x))
    ours, theirs = order[: 3 * len(x) // 4], order[3 * len(x) // 4 :]
    return (x[ours], y[ours]), (x[theirs], y[theirs])


def _loop(configuration: Configuration, x: Tensor, y: Tensor) -> Loop:
    settings, inputs = configuration.settings(), x.shape[1]
    if settings.objective == "optim-lambda":
        settings = settings.model_copy(update={"lam": paper.OPTIM_START * len(x)})
    with seeded(settings.seed, "prior"):
        if configuration.column == "mlp":
            return MLPFitting(MLP(inputs, settings.widths), x, y, settings)
        if configuration.column in ("pbg", "pbg-full"):
            return PBGFitting(PBGNet(inputs, settings.widths), x, y, settings)
    return Trainer(build_network(settings, inputs), x, y, settings)


def _trained(configuration: Configuration, place: Path, x: Tensor, y: Tensor) -> Loop:
    """From the last checkpoint to the end."""
    loop, saved = _loop(configuration, x, y), time.monotonic()
    path = place / f"checkpoint-{configuration.attempt}.safetensors"
    if path.exists():
        try:
            loop.restore(*load_tensors(path))
        except (DamagedFileError, KeyError, TypeError, ValueError, RuntimeError):
            # Cut short, or another version's: from the beginning, then.
            path.unlink()
            loop = _loop(configuration, x, y)
    for progress in loop.steps():
        over = progress.batch == progress.batches
        if over and (loop.finished or time.monotonic() - saved > _CHECKPOINT_SECONDS):
            save_tensors(path, *loop.state())
            saved = time.monotonic()
    return loop


def _summary(
    loop: Loop, best: Evaluation, test: tuple[Tensor, Tensor], configuration: Configuration
) -> Summary:
    x, y = test
    vote: float | None = None
    certificate: float | None = None
    with seeded(loop.settings.seed, "prediction"):
        if isinstance(loop, Trainer):
            network: Network = loop.network.eval()
            error = zero_one(predict_randomised(network, x), y).double().mean().item()
            if configuration.repeat:  # points of the grid are only compared
                vote = zero_one(majority_vote(network, x, _VOTES), y).double().mean().item()
                certificate = certify(network, loop.x, loop.y, samples=10, priors=_ATTEMPTS).bound
        else:
            F = loop.outputs(x, _VOTES)  # type: ignore[attr-defined]
            error = zero_one(F, y).double().mean().item()
    bounded = configuration.column != "mlp"
    ours = isinstance(loop, Trainer)
    return Summary(
        learned=not loop.hopeless,
        epoch=best.epoch,
        train_linear=best.risk,
        bound=best.bound if bounded else None,
        kl=best.kl if bounded else None,
        test_zero_one=error,
        vote_zero_one=vote,
        small_kl=small_kl(best.risk, best.kl, loop.n, loop.settings.delta / _ATTEMPTS)
        if ours
        else None,
        certificate=certificate,
        seconds=loop.seconds,
        attempts=configuration.attempt + 1,
        versions=versions(),
    )
