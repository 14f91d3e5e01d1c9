"""Train a run, or several that differ in their prior's scale."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from pacbayes.choices import (
    Activation,
    Augmentation,
    Engine,
    Estimator,
    Model,
    Objective,
    Precision,
    Protocol,
)
from pacbayes.cli import completion
from pacbayes.cli.networks import choice_of, whole_numbers
from pacbayes.cli.options import (
    AsJson,
    OnDevice,
    Quiet,
    Threads,
    given,
    numbers,
    set_threads,
    widths_of,
)
from pacbayes.cli.refusals import check_effective, check_network, check_no_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from pacbayes.data import Dataset, DataSource, Tables
    from pacbayes.folders import Run
    from pacbayes.folders.several import Follow
    from pacbayes.settings import Settings
    from pacbayes.training.loop import Progress

__all__ = ["train"]

_run = partial(typer.Option, rich_help_panel="Run")
_model = partial(typer.Option, rich_help_panel="Models other than networks")
_data = partial(typer.Option, rich_help_panel="Data")
_network = partial(typer.Option, rich_help_panel="Network (posterior Q)")
_conv = partial(typer.Option, rich_help_panel="Convolutions (--network conv)")
_prior = partial(typer.Option, rich_help_panel="Prior P")
_objective = partial(typer.Option, rich_help_panel="Objective")
_steps = partial(typer.Option, rich_help_panel="Optimisation")


def train(
    out: Annotated[Path, _run(help="Run folder; an unfinished run in it is resumed.")],
    model: Annotated[
        Model,
        _run(
            help="A stochastic network; or a scikit-learn model with a certificate: gradient "
            "boosting, a forest, a linear model, or the best of these and their mean."
        ),
    ] = "network",
    protocol: Annotated[
        Protocol, _run(help="Default settings, which the other options change.")
    ] = "fast",
    epochs: Annotated[
        int | None, _run(help="Passes over the data.  [default: the protocol's]")
    ] = None,
    seed: Annotated[int | None, _run(help="Random seed.  [default: 0]")] = None,
    tensorboard: Annotated[Path | None, _run(help="Folder for TensorBoard curves.")] = None,
    dataset: Annotated[
        str,
        _data(
            help="mnist, digits, … or your file: .csv, .tsv (also .gz), .parquet or .npz.",
            autocompletion=completion.datasets,
        ),
    ] = "binary-mnist",
    data_folder: Annotated[Path | None, _data(help="Folder with IDX files.")] = None,
    test_data: Annotated[Path | None, _data(help="Test file for your own data.")] = None,
    label: Annotated[
        str | None, _data(help="Label column of a table.  [default: the last]")
    ] = None,
    drop: Annotated[
        list[str] | None,
        _data(metavar="COLUMN", help="Column of a table to leave out; may be repeated."),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        _data(metavar="COLUMN", help="Column whose numbers are categories; may be repeated."),
    ] = None,
    group: Annotated[
        str | None,
        _data(
            metavar="COLUMN",
            help="Column that says which rows belong together, such as a patient; n counts groups.",
        ),
    ] = None,
    fallback: Annotated[
        str | None,
        _data(
            help="Data set to use if the first cannot be obtained.",
            autocompletion=completion.datasets,
        ),
    ] = None,
    repeats: Annotated[
        bool | None, _data("--repeats", help="Declare that examples naturally repeat.")
    ] = None,
    deduplicate: Annotated[
        bool, _data("--deduplicate", help="Keep the first of training examples that are the same.")
    ] = False,
    per_class: Annotated[
        bool, _model("--per-class", help="Certify the error on each class too.")
    ] = False,
    cost: Annotated[
        list[str] | None,
        _model(metavar="CLASS=COST", help="Cost of an error on a class, instead of 1."),
    ] = None,
    target_error: Annotated[
        float | None,
        _model(help="Leave doubtful examples unanswered, so that others err at most so often."),
    ] = None,
    network: Annotated[
        str,
        _network(
            metavar="dense|conv|FILE.py:FUNCTION",
            help="Dense layers, convolutions, or a module that your function builds; it is called "
            "with the shape of an example and the number of scores.",
        ),
    ] = "dense",
    activation: Annotated[Activation, _network(help="Hidden units.")] = "relu",
    widths: Annotated[
        str | None,
        _network(
            help="Hidden layers, none for a linear model.  [default: 100; where the prior of "
            "images learns, 100,100,100]"
        ),
    ] = None,
    channels: Annotated[
        str | None, _conv(help="Channels of every convolution.  [default: 16,32]")
    ] = None,
    kernels: Annotated[str | None, _conv(help="Side lengths of the kernels.")] = None,
    strides: Annotated[str | None, _conv(help="Strides of the kernels.")] = None,
    padding: Annotated[
        bool | None, _conv("--padding/--no-padding", help="Pad images with zeros.")
    ] = None,
    pooling: Annotated[
        int | None, _conv(help="Average images to a grid of this side at the end; 0 leaves them.")
    ] = None,
    batch_norm: Annotated[
        bool | None,
        _conv("--batch-norm/--no-batch-norm", help="Batch norm, for a prior that learns."),
    ] = None,
    estimator: Annotated[
        Estimator | None,
        _network(metavar="NAME", help=f"Gradient of sign units: {', '.join(get_args(Estimator))}."),
    ] = None,
    learned_scale: Annotated[
        bool | None,
        _network(
            "--learned-scale/--unit-scale", help="Train the standard deviations of Q, or fix them."
        ),
    ] = None,
    prior_scale: Annotated[
        str | None,
        _prior(help="Standard deviation of P, or several to try, each paid for: 0.02,0.05."),
    ] = None,
    prior_fraction: Annotated[
        float | None,
        _prior(
            help="Fraction of the examples that P learns from; the bound uses the rest.  "
            "[default: 0; of a table, half or more]"
        ),
    ] = None,
    prior_epochs: Annotated[
        int | None, _prior(help="Epochs of learning P.  [default: 100]")
    ] = None,
    prior_rate: Annotated[
        float | None, _prior(help="Learning rate for P.  [default: 0.01]")
    ] = None,
    prior_decay: Annotated[
        float | None,
        _prior(help="Weight decay for P, of networks other than dense.  [default: 0]"),
    ] = None,
    prior_augmentation: Annotated[
        Augmentation | None,
        _prior(help="Rotate and shift the images P learns from, or crop and flip them."),
    ] = None,
    prior_precision: Annotated[
        Precision | None,
        _prior(
            help="Precision in which P learns, for networks other than dense; bfloat16 is faster "
            "on most GPUs."
        ),
    ] = None,
    prior_finer: Annotated[
        bool | None,
        _prior(
            "--prior-finer",
            help="Let P learn finer classes if the data set has them, such as the ten digits of "
            "binary-mnist.",
        ),
    ] = None,
    objective: Annotated[
        Objective | None,
        _objective(
            help="Fix λ, learn it, or follow the small-kl bound.  [default: fix-lambda; "
            "small-kl with --prior-fraction]"
        ),
    ] = None,
    lam: Annotated[float | None, _objective("--lambda", help="λ.  [default: n]")] = None,
    lambda_rate: Annotated[
        float | None, _objective(help="Learning rate of λ, for optim-lambda.")
    ] = None,
    kl_warmup: Annotated[
        float | None, _objective(help="Fraction of the run in which the weight of the KL grows.")
    ] = None,
    delta: Annotated[
        float | None, _objective(help="δ of the bound that guides training.  [default: 0.05]")
    ] = None,
    learning_rate: Annotated[float | None, _steps(help="Initial learning rate of Adam.")] = None,
    batch_size: Annotated[
        int | None, _steps(help="Examples per step.  [default: n/100, between 16 and 512]")
    ] = None,
    samples: Annotated[
        int | None, _steps("--samples", "-T", help="Draws per example in training, T.")
    ] = None,
    evaluate_every: Annotated[
        int | None, _steps(help="Epochs between evaluations.  [default: 5]")
    ] = None,
    evaluation_samples: Annotated[
        int | None, _steps(help="Draws per example in evaluations.  [default: 10]")
    ] = None,
    engine: Annotated[Engine | None, _steps(help="native where possible, or torch.")] = None,
    device: OnDevice = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a network; the same command again resumes it.

    The result is a run folder, which the other commands take.

    pacbayes train --out runs/relu

    pacbayes train --dataset my.csv --label answer --drop id --out runs/mine

    pacbayes train --dataset my.parquet --test-data test.parquet --out runs/mine

    pacbayes train --dataset digits --widths none --out runs/digits

    pacbayes train --dataset mnist --prior-fraction 0.5 --out runs/ten

    pacbayes train --dataset mnist --network conv --out runs/conv

    pacbayes train --dataset my.npz --network my_network.py:build --out runs/own

    pacbayes train --dataset my.csv --model best --cost ill=10 --out runs/best
    """
    started = time.monotonic()
    check_no_model(per_class=per_class, cost=cost, target_error=target_error)
    from pacbayes.data import DataSource
    from pacbayes.defaults import for_module, for_table
    from pacbayes.settings import Settings

    own = DataSource(
        dataset,
        _text(data_folder),
        _text(test_data),
        label,
        deduplicate,
        tuple(drop or ()),
        tuple(categorical or ()),
        group,
    )
    sources = _checked(own, fallback)
    changes = given(
        {
            "estimator": estimator,
            "widths": widths_of(widths),
            "learned_scale": learned_scale,
            **_scales(prior_scale),
            "prior_fraction": prior_fraction,
            "prior_epochs": prior_epochs,
            "prior_rate": prior_rate,
            "prior_decay": prior_decay,
            "prior_augmentation": prior_augmentation,
            "prior_precision": prior_precision,
            "prior_finer": prior_finer,
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
    )
    layers = {
        "channels": whole_numbers("--channels", channels),
        "kernels": whole_numbers("--kernels", kernels),
        "strides": whole_numbers("--strides", strides),
        "padding": padding,
        "pooling": pooling,
        "batch_norm": batch_norm,
    }
    dense = network == "dense"
    check_network(network, changes | given({**layers, "widths": widths}), activation, protocol)
    table = own.is_table and protocol == "fast"
    learned = bool(changes.get("prior_fraction", table and dense))
    check_effective(changes, objective, learned=learned)
    settings_of = partial(Settings.of, protocol, activation, objective)
    if not dense:
        layers["widths"] = changes.pop("widths", None)
    defaults = partial(for_table if dense else for_module, given=changes)
    settings_of(**(defaults(1000) if table or not dense else changes))  # fails before data are read
    set_threads(threads)
    from pacbayes import folders
    from pacbayes.devices import device_named

    place = device_named(device)  # fails before data are read

    source, read, fell_back = _load(*sources, tensorboard)
    if fell_back and dense:  # bundled data are too few for hidden layers
        changes.setdefault("widths", ())
    elif not dense:
        changes = defaults(len(read.y_train))
    elif table:
        groups = None if read.groups is None else len(set(read.groups.tolist()))
        changes = for_table(len(read.y_train), changes, groups)
    settings = settings_of(classes=len(read.classes), **changes)
    data = folders.featured(read, settings)
    choice = choice_of(network, layers, learned=bool(settings.prior_fraction), shape=data.shape)
    already = _trained(folders.planned_runs(out, settings))
    learn, follow = _followers(data, out, tensorboard, place, quiet=quiet or as_json)
    trained = folders.train_all(
        out, settings, source, data, choice, follow_prior=learn, follow=follow, device=place
    )
    _show(trained, None if already else started, as_json=as_json)


def _checked(own: DataSource, fallback: str | None) -> tuple[DataSource, DataSource | None]:
    """Return the source of the data and the fall-back, after checking their names."""
    from pacbayes.data import DataSource

    other = None if fallback is None else DataSource(fallback)
    for source in filter(None, (own, other)):
        source.check()
    return own, other


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _scales(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    scales = tuple(numbers("prior-scale", text))
    several = {"prior_scales": scales} if len(scales) > 1 else {}
    return {"prior_scale": scales[0], **several}


def _load(
    source: DataSource, fallback: DataSource | None, tensorboard: Path | None
) -> tuple[DataSource, Dataset | Tables, bool]:
    """Return the source used, its data, and whether it is the fall-back."""
    from pacbayes.cli import console
    from pacbayes.cli import tensorboard as curves
    from pacbayes.data import load_with_fallback

    if tensorboard is not None:
        curves.check(tensorboard)
    used, data, reason = load_with_fallback(source, fallback)
    if reason is not None:
        console.shout(f"{reason}\n\nUSING {used.name} INSTEAD OF {source.name}.")
    return used, data, reason is not None


def _followers(
    data: Dataset, out: Path, tensorboard: Path | None, device: torch.device, *, quiet: bool
) -> tuple[Follow[Settings], Follow[Run]]:
    """Return what shows the learning of a prior, and the training of a run."""
    from pacbayes import folders
    from pacbayes.cli import progress
    from pacbayes.cli import tensorboard as curves

    def follow(steps: Iterator[Progress], run: Run) -> None:
        if tensorboard is not None:
            place = tensorboard / run.folder.resolve().relative_to(out.resolve().parent)
            steps = curves.recorded(steps, run, place)
        note = folders.engine_note(run, data, device)
        progress.show_training(steps, run, note, quiet=quiet)

    return partial(progress.show_prior, quiet=quiet), follow


def _trained(planned: list[tuple[Path, Settings]]) -> bool:
    """Return whether every planned run was trained before."""
    return all((folder / "posterior.safetensors").exists() for folder, _ in planned)


def _show(trained: list[Run], started: float | None, *, as_json: bool) -> None:
    """Print the best run; `started` is None if all were trained before."""
    from pacbayes import folders
    from pacbayes.cli import console

    best = folders.best_run(trained)
    if as_json:
        print(json.dumps({"run": str(best.folder), "evaluation": asdict(best.best)}))
    else:
        took = "Already trained" if started is None else f"Trained in {console.took(started)}"
        console.show_trained(trained, best, took)
