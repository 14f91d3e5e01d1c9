"""Make one run of a sweep in its folder: train, resume, reset, evaluate and summarise.

A network's folder is an ordinary run folder: it can be certified, verified, predicted with,
reported and exported. The baselines mlp and PBGNet, which are not networks of this library, have a
checkpoint only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from pacbayes.bounds import small_kl
from pacbayes.data import Dataset, DataSource, load
from pacbayes.data.tasks import Binary
from pacbayes.files import DamagedFileError, load_tensors, save_json, save_tensors
from pacbayes.folders import Run, certify_run, prepare, train_run
from pacbayes.folders.leases import BusyError
from pacbayes.folders.prediction import VOTES, TestErrors
from pacbayes.folders.record import versions
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.paper.baselines import MLP, Fitting, MLPFitting, PBGFitting, PBGNet
from pacbayes.paper.columns import Configuration
from pacbayes.paper.printed import OPTIM_START
from pacbayes.paper.store import Reset, Store, Summary, read_folder
from pacbayes.randomness import permutation, seeded
from pacbayes.settings import Settings
from pacbayes.training.checkpoints import restore
from pacbayes.training.loop import SCHEDULES, hopeless, run_to_end

__all__ = ["ATTEMPTS", "attempt", "examples", "run"]

ATTEMPTS = 5  # each with a prior of its own, for which certificates pay
_BASELINES = ("mlp", "pbg", "pbg-full")
_SAMPLES = 10  # draws per example of a certificate
_ONE_AT_A_TIME = threading.Lock()
Examples = tuple[Tensor, Tensor]


def run(configuration: Configuration, store: Store) -> Literal["done", "failed", "busy"]:
    """Make a run unless it is done, or in progress elsewhere.

    It uses one thread, since torch's sums depend on their number, which belongs to the process; so
    a process makes one run at a time.
    """
    with _ONE_AT_A_TIME:
        return attempt(configuration, store, _summary)


def attempt(
    configuration: Configuration, store: Store, make: Callable[[Configuration, Path], Summary]
) -> Literal["done", "failed", "busy"]:
    """Make a run in its folder by `make`, unless it is done, or in progress elsewhere."""
    state = store.state(configuration)
    if state in ("done", "running"):  # without a lease, which takes many more calls
        return "done" if state == "done" else "busy"
    with store.lease(configuration) as ours:
        if store.summary(configuration) is not None:
            return "done"
        if not ours:
            return "busy"
        if store.diverged(configuration):
            return "failed"
        try:
            summary = make(configuration, store.place(configuration))
        except BusyError:
            return "busy"
        except Exception as error:  # whatever it is, the other runs go on
            store.fail(configuration, f"{type(error).__name__}: {error}")
            return "failed"
        store.finish(configuration, summary)
        return "done"


def _summary(configuration: Configuration, place: Path) -> Summary:
    torch.set_num_threads(1)
    summarise = _baseline_summary if configuration.column in _BASELINES else _network_summary
    return summarise(configuration, place)


def _network_summary(configuration: Configuration, place: Path) -> Summary:
    source = DataSource(configuration.dataset)
    data = source.load()
    made = _trained(configuration, place, source, data)
    settings, best = made.settings, made.best
    errors, certificate = _evaluated(made, data, repeat=bool(configuration.repeat))
    resets = _resets(place)
    return Summary(
        learned=not _hopeless(made),
        epoch=best.epoch,
        train_linear=best.risk,
        bound=best.bound,
        kl=best.kl,
        test_zero_one=errors[0],
        vote_zero_one=errors[1],
        small_kl=small_kl(best.risk, best.kl, made.record.data.n, settings.delta / ATTEMPTS),
        certificate=certificate,
        seconds=made.history[-1].seconds + sum(reset.seconds for reset in resets),
        attempts=len(resets) + 1,
        versions=versions(),
    )


def _evaluated(
    made: Run, data: Dataset, *, repeat: bool
) -> tuple[tuple[float, float | None], float | None]:
    """Return test errors of the randomised classifier and the vote, and the certified bound.

    Points of the grid are only compared, so they have neither vote nor certificate. The
    certificate pays for the seed of the prior, and with it for every start that was reset.
    """
    network, (x, y) = made.load_network().eval(), data.tensors("test")
    seed = made.settings.seed
    with seeded(seed, "prediction"):
        error = _mean(network.task.wrong(predict_randomised(network, x), y))
        if not repeat:
            return (error, None), None
        vote = _mean(network.task.wrong(majority_vote(network, x, VOTES), y))
    save_json(made.folder / "test.json", asdict(TestErrors(error, vote, VOTES, len(x))))
    issued = certify_run(
        made, network, data, delta=made.settings.delta, bound="small-kl", samples=_SAMPLES
    )
    return (error, vote), issued.bound


def _mean(wrong: Tensor) -> float:
    return wrong.double().mean().item()


def _trained(configuration: Configuration, place: Path, source: DataSource, data: Dataset) -> Run:
    """Train until an attempt learns, or the last one ends; every attempt has its own seed."""
    *early, last = configuration.starts(ATTEMPTS)
    for start in early[len(_resets(place)) :]:
        settings = _settings(start, data)
        try:
            made = _resumed(place, settings, source, data)
        except FloatingPointError:
            _reset(place, settings.seed, 0.0, "diverged")
            continue
        if not _hopeless(made):
            return made
        _reset(place, settings.seed, made.history[-1].seconds, "learned nothing")
    return _resumed(place, _settings(last, data), source, data)


def _resumed(place: Path, settings: Settings, source: DataSource, data: Dataset) -> Run:
    """Train from the last checkpoint to the end; start again if the files cannot be used."""
    begun = (place / "run.json").exists()
    try:
        made = prepare(place, settings, source, data)
        for _ in train_run(made, data):
            pass
        return made
    except BusyError:  # the files are somebody else's
        raise
    except (DamagedFileError, KeyError, TypeError, ValueError, RuntimeError):
        if not begun:
            raise
    _discard(place)  # cut short, of another version, or of an earlier attempt
    return _resumed(place, settings, source, data)


def _settings(configuration: Configuration, data: Dataset) -> Settings:
    settings = configuration.settings()
    if settings.objective == "optim-lambda":
        return settings.model_copy(update={"lam": OPTIM_START * len(data.x_train)})
    return settings


def _hopeless(made: Run) -> bool:
    classes = len(made.record.data.classes)
    return hopeless(made.history, SCHEDULES[made.settings.protocol], classes)


def _reset(place: Path, seed: int, seconds: float, reason: str) -> None:
    """Give an attempt up, and make room for the next one."""
    given_up = [*_resets(place), Reset(seed, seconds, reason)]
    save_json(place / "resets.json", [asdict(reset) for reset in given_up])
    _discard(place)


def _resets(place: Path) -> tuple[Reset, ...]:
    return read_folder(place, "resets").resets or ()


def _discard(place: Path) -> None:
    """Remove the run's own files, so that another attempt can have the folder."""
    for name in ("run.json", "checkpoint.safetensors", "posterior.safetensors", "history.json"):
        (place / name).unlink(missing_ok=True)


def _baseline_summary(configuration: Configuration, place: Path) -> Summary:
    """Train a baseline, resetting it while it learns nothing, and summarise the last attempt."""
    train, (x, y) = examples(configuration)
    fitting, attempt, seconds = _last_attempt(configuration.starts(ATTEMPTS), place, train)
    fitting.model.load_state_dict(fitting.model.state_dict() | fitting.best)
    best = min(fitting.history, key=lambda e: e.guide)
    save_json(place / "history.json", [asdict(e) for e in fitting.history])
    with seeded(fitting.settings.seed, "prediction"):
        T = fitting.evaluation_samples if fitting.biased else VOTES
        error = _mean(Binary().wrong(fitting.outputs(x, T), y))
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
            fitting = _trained_baseline(start, place, train)
        except FloatingPointError:
            continue
        seconds += fitting.seconds
        if not fitting.hopeless:
            return fitting, start.attempt, seconds
    fitting = _trained_baseline(last, place, train)
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


def _new_baseline(configuration: Configuration, train: Examples) -> Fitting:
    settings, inputs = configuration.settings(), train[0].shape[1]
    with seeded(settings.seed, "prior"):
        if configuration.column == "mlp":
            return MLPFitting(MLP(inputs, settings.widths), *train, settings)
        return PBGFitting(PBGNet(inputs, settings.widths), *train, settings)


def _trained_baseline(configuration: Configuration, place: Path, train: Examples) -> Fitting:
    """Train from the last checkpoint to the end."""
    path = place / f"checkpoint-{configuration.attempt}.safetensors"
    fitting = _restored_baseline(configuration, path, train)
    for _ in run_to_end(fitting, lambda: save_tensors(path, *fitting.state())):
        pass
    return fitting


def _restored_baseline(configuration: Configuration, path: Path, train: Examples) -> Fitting:
    """Return the state of the checkpoint, or a new one if there is none that can be used."""
    fitting = _new_baseline(configuration, train)
    if not path.exists():
        return fitting
    try:
        restore(fitting, path, *load_tensors(path))
        return fitting
    except DamagedFileError:
        path.unlink()  # cut short, or of another version
    return _new_baseline(configuration, train)
