"""Train a run, or several that differ in their prior's scale."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from pacbayes.choices import (
    Activation,
    Augmentation,
    Engine,
    Estimator,
    Objective,
    Protocol,
)
from pacbayes.cli import completion
from pacbayes.cli.options import (
    AsJson,
    Quiet,
    Threads,
    numbers,
    set_threads,
    widths_of,
)
from pacbayes.spelling import did_you_mean

__all__ = ["train"]

_run = partial(typer.Option, rich_help_panel="Run")
_data = partial(typer.Option, rich_help_panel="Data")
_network = partial(typer.Option, rich_help_panel="Network (posterior Q)")
_prior = partial(typer.Option, rich_help_panel="Prior P")
_objective = partial(typer.Option, rich_help_panel="Objective")
_steps = partial(typer.Option, rich_help_panel="Optimisation")


def train(
    out: Annotated[Path, _run(help="Run folder; an unfinished run in it is resumed.")],
    protocol: Annotated[Protocol, _run(help="Recipe that the other options change.")] = "fast",
    epochs: Annotated[
        int | None, _run(help="Passes over the data.  [default: the protocol's]")
    ] = None,
    seed: Annotated[int | None, _run(help="Of everything random.  [default: 0]")] = None,
    tensorboard: Annotated[
        Path | None, _run(help="Folder of curves for TensorBoard to show.")
    ] = None,
    dataset: Annotated[
        str,
        _data(
            help="mnist, binary-mnist, digits, … or a .npz/.csv file.",
            autocompletion=completion.datasets,
        ),
    ] = "binary-mnist",
    data_folder: Annotated[Path | None, _data(help="Folder with IDX files.")] = None,
    test_data: Annotated[Path | None, _data(help="Test file for one's own data.")] = None,
    label: Annotated[
        str | None, _data(help="Label column of a CSV file.  [default: the last]")
    ] = None,
    fallback: Annotated[
        str | None,
        _data(
            help="Data set to use if the first cannot be obtained.",
            autocompletion=completion.datasets,
        ),
    ] = None,
    repeats: Annotated[
        bool | None, _data("--repeats", help="Examples do occur more than once.")
    ] = None,
    activation: Annotated[Activation, _network(help="Hidden units.")] = "relu",
    widths: Annotated[
        str | None,
        _network(help="Hidden layers, none for a linear model.  [default: 100,100,100]"),
    ] = None,
    estimator: Annotated[
        Estimator | None,
        _network(metavar="NAME", help=f"Gradient of sign units: {', '.join(get_args(Estimator))}."),
    ] = None,
    learned_scale: Annotated[
        bool | None, _network("--learned-scale/--unit-scale", help="Deviations of Q.")
    ] = None,
    prior_scale: Annotated[
        str | None,
        _prior(help="Deviation of P, or several to try, each paid for: 0.02,0.05."),
    ] = None,
    prior_fraction: Annotated[
        float | None, _prior(help="Part of the examples P learns from; the rest is bound on.")
    ] = None,
    prior_epochs: Annotated[int | None, _prior(help="Of learning P.  [default: 100]")] = None,
    prior_rate: Annotated[
        float | None, _prior(help="Adam's rate in learning P.  [default: 0.01]")
    ] = None,
    prior_augmentation: Annotated[
        Augmentation | None, _prior(help="Turn and shift the images P learns from.")
    ] = None,
    objective: Annotated[
        Objective | None,
        _objective(
            help="Keep λ, learn it, or take small-kl's.  [default: fix-lambda; small-kl with "
            "--prior-fraction]"
        ),
    ] = None,
    lam: Annotated[float | None, _objective("--lambda", help="λ.  [default: n]")] = None,
    lambda_rate: Annotated[float | None, _objective(help="SGD rate of optim-lambda.")] = None,
    kl_warmup: Annotated[
        float | None, _objective(help="Part of the run in which the KL's weight grows.")
    ] = None,
    delta: Annotated[
        float | None, _objective(help="δ of the bound that guides.  [default: 0.05]")
    ] = None,
    learning_rate: Annotated[float | None, _steps(help="Initial rate of Adam.")] = None,
    batch_size: Annotated[
        int | None, _steps(help="Examples per step.  [default: n/100, within 16 and 512]")
    ] = None,
    samples: Annotated[int | None, _steps("--samples", "-T", help="T in training.")] = None,
    evaluate_every: Annotated[int | None, _steps(help="In epochs.  [default: 5]")] = None,
    evaluation_samples: Annotated[
        int | None, _steps(help="T in evaluations.  [default: 10]")
    ] = None,
    engine: Annotated[Engine | None, _steps(help="native where it can be, or torch.")] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a network; the same command again resumes it.

    It leaves a run folder, which the other commands take.

    pacbayes train --out runs/relu

    pacbayes train --dataset my.csv --activation sign --epochs 100 --out runs/mine

    pacbayes train --dataset digits --widths none --out runs/digits

    pacbayes train --dataset mnist --prior-fraction 0.5 --out runs/ten
    """
    started = time.monotonic()
    scales = None if prior_scale is None else numbers("prior-scale", prior_scale)
    changes: dict[str, Any] = {
        "estimator": estimator,
        "widths": None if widths is None else widths_of(widths),
        "learned_scale": learned_scale,
        "prior_scale": scales and scales[0],
        "prior_scales": tuple(scales) if scales and len(scales) > 1 else None,
        "prior_fraction": prior_fraction,
        "prior_epochs": prior_epochs,
        "prior_rate": prior_rate,
        "prior_augmentation": prior_augmentation,
        "lam": lam,
        "lambda_rate": lambda_rate,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "samples": samples,
        "kl_warmup": kl_warmup,
        "evaluate_every": evaluate_every,
        "evaluation_samples": evaluation_samples,
        "engine": engine,
        "repeats": repeats,
        "delta": delta,
        "seed": seed,
    }
    from pacbayes.settings import Settings

    _check_data(dataset, data_folder, test_data, label, fallback)
    if not prior_fraction:
        for name in ("prior_epochs", "prior_rate", "prior_augmentation"):
            if changes[name] is not None:
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} is for a prior that learns: give --prior-fraction, too")
    if lambda_rate is not None and objective != "optim-lambda":
        raise ValueError("--lambda-rate is for --objective optim-lambda")
    given = {name: value for name, value in changes.items() if value is not None}
    settings = Settings.of(protocol, activation, objective, **given)  # complains before data load
    set_threads(threads)
    from pacbayes import runs
    from pacbayes.cli import console, progress
    from pacbayes.cli import tensorboard as curves
    from pacbayes.data import NAMES, DataError
    from pacbayes.runs import preparation
    from pacbayes.runs.record import DataSource

    if tensorboard is not None:
        curves.check(tensorboard)
    if Path(dataset).suffix:
        dataset = str(Path(dataset).resolve())
    texts = [None if path is None else str(path.resolve()) for path in (data_folder, test_data)]
    source = DataSource(dataset, texts[0], texts[1], label)
    try:
        data = source.load()
    except DataError as error:
        misspelt = dataset not in NAMES and not Path(dataset).suffix
        if fallback is None or misspelt:
            raise
        console.shout(f"{error}\n\nUSING {fallback} INSTEAD OF {dataset}.")
        source = DataSource(fallback)
        data = source.load()
        if widths is None:  # bundled data are too few to pay for three hidden layers
            given["widths"] = ()
    settings = Settings.of(protocol, activation, objective, classes=len(data.classes), **given)
    chosen, begun = settings.prior_scales or (settings.prior_scale,), []
    for scale in chosen:  # every prior is there before the first look at the bound set
        own = settings.model_copy(update={"prior_scale": scale})
        folder = out if len(chosen) == 1 else out / f"scale-{str(scale).removesuffix('.0')}"
        steps = preparation.prior_steps(folder, own, source, data)
        progress.show_prior(steps, own, quiet=quiet or as_json)
        begun.append(preparation.prepare(folder, own, source, data))
    already = all(run.trained for run in begun)
    for run in begun:
        note, steps = runs.engine_note(run, data), runs.train_run(run, data)
        if tensorboard is not None:
            place = tensorboard / run.folder.resolve().relative_to(out.resolve().parent)
            steps = curves.recorded(steps, run, place)
        try:
            progress.show_training(steps, run, note, quiet=quiet or as_json)
        except ArithmeticError:
            preparation.withdraw(run)
            raise
    best = min(begun, key=lambda run: run.best.bound)
    if as_json:
        print(json.dumps({"run": str(best.folder), "evaluation": asdict(best.best)}))
    else:
        took = f"Trained in {console.duration(time.monotonic() - started)}"
        console.show_trained(begun, best, "Was trained already" if already else took)


def _check_data(
    dataset: str,
    folder: Path | None,
    test: Path | None,
    label: str | None,
    fallback: str | None,
) -> None:
    """Refuse what would not be looked at."""
    from pacbayes.data import NAMES

    if fallback is not None and fallback not in NAMES and not Path(fallback).suffix:
        hint = did_you_mean(fallback, NAMES) or f"; give one of {', '.join(NAMES)}"
        raise ValueError(f"--fallback: no data set {fallback!r}{hint}")
    if dataset in NAMES and test is not None:
        raise ValueError(f"--test-data is for a file of one's own; {dataset} has its test part")
    if label is not None and Path(dataset).suffix != ".csv":
        raise ValueError(f"--label is for a .csv file, got --dataset {dataset}")
    if folder is not None and (dataset == "digits" or dataset not in NAMES):
        raise ValueError(f"--data-folder is for the IDX files of MNIST, got --dataset {dataset}")
