"""Train a run, or several that differ in their prior's scale, or a model of another kind."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.choices import Model
from pacbayes.cli.options import (
    AsJson,
    OnDevice,
    Quiet,
    Threads,
    complete_datasets,
    flag_of,
    given,
    numbers,
    offering,
    refuse_idle,
    set_threads,
    whole_numbers,
)
from pacbayes.cli.streams import command, remark, shout, took
from pacbayes.settings import OPTIONS, Option, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from pacbayes.data import Dataset, DataSource, Tables
    from pacbayes.folders import Run
    from pacbayes.folders.fitting import FittedModel
    from pacbayes.folders.run import Follow
    from pacbayes.training.loop import Progress

__all__ = ["train"]

_run = partial(typer.Option, rich_help_panel="Run")
_data = partial(typer.Option, rich_help_panel="Data")
_model = partial(typer.Option, rich_help_panel="Models other than networks")
_network = partial(typer.Option, rich_help_panel="Network (posterior Q)")
_column = partial(_data, metavar="COLUMN")
_conv = partial(Option, panel="Convolutions (--network conv)", networks=("conv",))
_SIZES = partial(_conv, several=True)
_CONVOLUTIONS: dict[str, tuple[Any, Option]] = {
    "channels": (str, _SIZES("Channels of every convolution.  [default: 16,32]")),
    "kernels": (str, _SIZES("Side lengths of the kernels.")),
    "strides": (str, _SIZES("Strides of the kernels.")),
    "padding": (bool, _conv("Pad images with zeros.", flags=("--padding/--no-padding",))),
    "pooling": (int, _conv("Average images to a grid of this side at the end; 0 leaves them.")),
    "batch_norm": (
        bool,
        _conv("Batch norm, for a prior that learns.", flags=("--batch-norm/--no-batch-norm",)),
    ),
}
_kernel = partial(Option, panel="Kernels (--network kernel)", networks=("kernel",))
_KERNELS: dict[str, tuple[Any, Option]] = {
    "features": (
        str,
        _kernel(
            "Formula of one example: wavelets, strokes (straightened first), colours, pixels or "
            "columns.  [default: by the data]",
            metavar="NAME",
        ),
    ),
    "kernel": (
        str,
        _kernel(
            "Sums and products of linear^POWER, arc-cosine^DEPTH and gaussian^G of the features.  "
            "[default: by the features]",
            metavar="TEXT",
        ),
    ),
    "landmarks": (int, _kernel("Training examples that span the directions of Q.")),
    "directions": (int, _kernel("Directions that carry Q, at most.")),
}
_SETTINGS = {name: (Settings.model_fields[name].annotation, OPTIONS[name]) for name in OPTIONS}
_OF_MODELS = {name for name, option in OPTIONS.items() if option.models}
_OF_DATA = {"dataset", "test_data", "label", "drop", "categorical", "group", "deduplicate"}
_USEFUL = {"out", "model", "per_class", "cost", "loss", "target_error", "quiet", "as_json"}
_USEFUL |= _OF_DATA | _OF_MODELS  # with models other than networks


@offering(_CONVOLUTIONS | _KERNELS | _SETTINGS)
def train(
    context: typer.Context,
    out: Annotated[Path, _run(help="Run folder; an unfinished run in it is resumed.")],
    model: Annotated[
        Model,
        _run(
            help="A stochastic network; or a scikit-learn model with a certificate: gradient "
            "boosting, a forest, a linear model, or the best of these and their mean."
        ),
    ] = "network",
    tensorboard: Annotated[Path | None, _run(help="Folder for TensorBoard curves.")] = None,
    dataset: Annotated[
        str,
        _data(
            help="mnist, digits, … or your file: .csv, .tsv (also .gz), .parquet or .npz.",
            autocompletion=complete_datasets,
        ),
    ] = "binary-mnist",
    data_folder: Annotated[Path | None, _data(help="Folder with IDX files.")] = None,
    test_data: Annotated[Path | None, _data(help="Test file for your own data.")] = None,
    label: Annotated[
        str | None, _data(help="Label column of a table.  [default: the last]")
    ] = None,
    drop: Annotated[
        list[str] | None, _column(help="Column of a table to leave out; may be repeated.")
    ] = None,
    categorical: Annotated[
        list[str] | None, _column(help="Column whose numbers are categories; may be repeated.")
    ] = None,
    group: Annotated[
        str | None,
        _column(
            help="Column that says which rows belong together, such as a patient; n counts groups."
        ),
    ] = None,
    fallback: Annotated[
        str | None,
        _data(
            help="Data set to use if the first cannot be obtained.",
            autocompletion=complete_datasets,
        ),
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
    loss: Annotated[
        str | None,
        _model(metavar="error|top-K", help="Certify how often the label is not among the K best."),
    ] = None,
    target_error: Annotated[
        float | None,
        _model(help="Abstain on doubtful examples, aiming at this error rate on the rest."),
    ] = None,
    network: Annotated[
        str,
        _network(
            metavar="dense|conv|kernel|FILE.py:FUNCTION",
            help="Dense layers, convolutions, a Gaussian process on fixed features, or a module "
            "that your function builds; it is called with the shape of an example and the number "
            "of scores.",
        ),
    ] = "dense",
    device: OnDevice = "cpu",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **chosen: Any,
) -> None:
    """Train a network; the same command again resumes it.

    The result is a run folder, which the other commands take.

    pacbayes train --out runs/relu

    pacbayes train --dataset my.csv --label answer --drop id --out runs/mine

    pacbayes train --dataset my.parquet --test-data test.parquet --out runs/mine

    pacbayes train --dataset digits --widths none --out runs/digits

    pacbayes train --dataset mnist --prior-fraction 0.5 --out runs/ten

    pacbayes train --dataset mnist --network conv --out runs/conv

    pacbayes train --dataset mnist --network kernel --out runs/kernel

    pacbayes train --dataset my.npz --network my_network.py:build --out runs/own

    pacbayes train --dataset my.csv --model best --cost ill=10 --out runs/best
    """
    started = time.monotonic()
    columns: dict[str, Any] = {"label": label, "drop": tuple(drop or ()), "group": group}
    columns |= {"categorical": tuple(categorical or ()), "deduplicate": deduplicate}
    if model != "network":
        refuse_idle(context, f"--model {model}", useful=_USEFUL)
        own = given({name: chosen[name] for name in _OF_MODELS})
        own |= {"per_class": per_class, "costs": cost or (), "target_error": target_error}
        own |= {"loss": loss or "error"}
        fitted = _fit(model, out, dataset, test_data, columns, own)
        _show_model(fitted, out, started, quiet=quiet, as_json=as_json)
        return
    if per_class:
        raise ValueError("--per-class is for other models; use pacbayes certify --per-class later")
    for option, value in (("--cost", cost), ("--loss", loss), ("--target-error", target_error)):
        if value is not None:
            raise ValueError(f"{option} needs --model boosting, forest, linear or best")
    from pacbayes.data import DataSource

    source = DataSource(dataset, folder=_text(data_folder), test=_text(test_data), **columns)
    other = None if fallback is None else DataSource(fallback)
    for each in filter(None, (source, other)):
        each.check()
    asked = _parsed(chosen)
    table = source.is_table and asked["protocol"] == "fast"
    kind = network if network in ("dense", "conv", "kernel") else "module"
    _check_effective(asked, kind, learned=asked.get("prior_fraction", table and kind == "dense"))
    request = _Request(out, (source, other), asked, started, quiet, as_json)
    set_threads(threads)
    if kind == "kernel":
        _check_for_kernel(tensorboard, device)
        _train_kernel(request)
    else:
        _train_network(request, network, tensorboard, device, table=table)


@dataclass(frozen=True)
class _Request:
    """What every network is trained with.

    Attributes:
        sources: the data, and what replaces them if they cannot be had.
        settings: those that were asked for.
        started: time at which the command began.
    """

    out: Path
    sources: tuple[DataSource, DataSource | None]
    settings: dict[str, Any]
    started: float
    quiet: bool
    as_json: bool


def _train_network(
    request: _Request, network: str, tensorboard: Path | None, device: str, *, table: bool
) -> None:
    """Train a network by every prior scale, each in its folder, and print the best run."""
    from pacbayes import folders
    from pacbayes.devices import device_named

    kind = network if network in ("dense", "conv") else "module"
    if kind == "module":
        _check_file(network)
    out, asked, (source, other) = request.out, dict(request.settings), request.sources
    layers = {name: asked.pop(name) for name in _CONVOLUTIONS if name in asked}
    if kind != "dense" and "widths" in asked:
        layers["widths"] = asked.pop("widths")
    defaults = partial(_defaults, kind, table=table)
    Settings.of(**defaults(asked, 1000))  # fails before data are read
    place = device_named(device)  # likewise
    used, read = _load(source, other, tensorboard)
    if used is not source and kind == "dense":  # bundled data are too few for hidden layers
        asked.setdefault("widths", ())
        defaults = partial(_defaults, kind, table=False)
    n, groups = len(read.y_train), None
    if table and read.groups is not None:
        groups = len(set(read.groups.tolist()))
    settings = Settings.of(classes=len(read.classes), **defaults(asked, n, groups))
    data = folders.featured(read, settings)
    learned, shape = bool(settings.prior_fraction), data.shape or ()
    choice = folders.chosen(network, learned=learned, shape=shape, **layers)
    already = all(
        (folder / "posterior.safetensors").exists()
        for folder, _ in folders.planned_runs(out, settings)
    )
    quiet = request.quiet or request.as_json
    learn, follow = _followers(data, out, tensorboard, place, quiet=quiet)
    trained = folders.train_all(
        out, settings, used, data, choice, follow_prior=learn, follow=follow, device=place
    )
    _show(trained, None if already else request.started, as_json=request.as_json)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _parsed(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as settings have them."""
    found = given(dict(chosen))
    for name in found.keys() & {"channels", "kernels", "strides"}:
        found[name] = whole_numbers(name, found[name], "16,32")
    if (text := found.get("widths")) is not None:
        example = "100,100,100 or be none"
        found["widths"] = () if text == "none" else whole_numbers("widths", text, example)
    if (text := found.get("prior_scale")) is not None:
        scales = tuple(numbers("prior-scale", text))
        found |= {"prior_scale": scales[0]} | ({"prior_scales": scales} if scales[1:] else {})
    return found


def _check_file(network: str) -> None:
    """Refuse what names no function of a file."""
    file, _, function = network.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(
            "--network must be dense, conv, kernel or a function such as my_network.py:build, got "
            f"{network!r}"
        )
    if not Path(file).is_file():
        raise ValueError(f"--network {network}: {file} does not exist")


def _check_effective(asked: dict[str, Any], network: str, *, learned: object) -> None:
    """Refuse options of other networks, of a prior that learns, or of an objective."""
    for name, (_, option) in (_CONVOLUTIONS | _KERNELS | _SETTINGS).items():
        if name not in asked or asked[name] == option.default:
            continue
        if needed := option.needs(network, asked.get("objective"), learned=bool(learned)):
            value = "" if option.default is None else f" {asked[name]}"
            raise ValueError(f"{flag_of(name, option)}{value} needs {needed}")


def _defaults(
    network: str, asked: dict[str, Any], n: int, groups: int | None = None, *, table: bool
) -> dict[str, Any]:
    """Return the settings for n examples: what was asked, and what follows from their number."""
    from pacbayes.defaults import for_module, for_table

    if network != "dense":
        return for_module(n, asked)
    return for_table(n, asked, groups) if table else asked


def _load(
    source: DataSource, fallback: DataSource | None, tensorboard: Path | None
) -> tuple[DataSource, Dataset | Tables]:
    """Return the source used, and its data; be loud about the fall-back."""
    from pacbayes.cli import progress
    from pacbayes.data import load_with_fallback

    if tensorboard is not None:
        progress.check_curves(tensorboard)
    used, data, reason = load_with_fallback(source, fallback)
    if reason is not None:
        shout(f"{reason}\n\nUSING {used.name} INSTEAD OF {source.name}.")
    return used, data


def _followers(
    data: Dataset, out: Path, tensorboard: Path | None, device: torch.device, *, quiet: bool
) -> tuple[Follow[Settings], Follow[Run]]:
    """Return what shows the learning of a prior, and the training of a run."""
    from pacbayes import folders
    from pacbayes.cli import progress

    def follow(steps: Iterator[Progress], run: Run) -> None:
        if tensorboard is not None:
            place = tensorboard / run.folder.resolve().relative_to(out.resolve().parent)
            steps = progress.with_curves(steps, run, place)
        note = folders.engine_note(run, data, device)
        progress.show_training(steps, run, note, quiet=quiet)

    return partial(progress.show_prior, quiet=quiet), follow


def _show(trained: list[Run], started: float | None, *, as_json: bool) -> None:
    """Print the best run; `started` is None if all were trained before."""
    from pacbayes import folders
    from pacbayes.cli import console

    best = folders.best_run(trained)
    if as_json:
        print(json.dumps({"run": str(best.folder), "evaluation": asdict(best.best)}))
    else:
        done = "Already trained" if started is None else f"Trained in {took(started)}"
        console.show_trained(trained, best, done)


def _check_for_kernel(tensorboard: Path | None, device: str) -> None:
    """Refuse options that have no effect on a kernel network."""
    if tensorboard is not None:
        raise ValueError("--tensorboard needs --network dense or conv or a module of your own")
    if device not in ("cpu", "auto"):
        raise ValueError(f"--device {device}: a kernel network trains on the CPU; leave it out")


def _train_kernel(request: _Request) -> None:
    """Train a kernel network in a folder, and print the result."""
    from pacbayes.cli import console, progress
    from pacbayes.folders.kernels import create_kernel, train_kernel_run
    from pacbayes.networks.kernel import KernelPrior
    from pacbayes.training.kernel import KernelSettings

    out, asked = request.out, request.settings
    names = ("landmarks", "directions", "epochs", "seed", "delta")
    settings = KernelSettings(**{name: asked[name] for name in names if name in asked})
    used, read = _load(*request.sources, None)
    data = read if not hasattr(read, "plain") else read.plain()
    shape = data.shape or (data.x_train.shape[1],)
    prior = KernelPrior.usual(used.name, shape, asked.get("features"), asked.get("kernel"))
    run = create_kernel(out, prior, used, data, settings, repeats=asked.get("repeats", False))
    already = run.trained
    with console.waiting(f"computing features of {len(data.x_train)} examples"):
        follow = progress.epochs_done(run.record.title, quiet=request.quiet or request.as_json)
        train_kernel_run(run, data, follow=follow)
    last = run.history[-1] if run.history else None
    if request.as_json:
        print(json.dumps({"run": str(out), "evaluation": None if last is None else asdict(last)}))
    else:
        done = "Already trained" if already else f"Trained in {took(request.started)}"
        console.show_kernel_trained(run, last, done)


def _fit(
    model: Model,
    out: Path,
    dataset: str,
    test: Path | None,
    columns: dict[str, Any],
    asked: dict[str, Any],
) -> FittedModel:
    """Fit and certify a classifier, and save it with its certificate."""
    from pacbayes.cli import console
    from pacbayes.folders.fitting import check_folder, costs_of, read_examples, train_model

    check_folder(out)
    asked["deduplicate"] = columns.pop("deduplicate")
    examples = read_examples(dataset, test=test, **columns)
    asked["costs"] = costs_of(asked["costs"], examples.y)
    with console.waiting(f"fitting {model} to {len(examples.y)} examples"):
        return train_model(out, model, examples, dataset, **asked)


def _show_model(
    fitted: FittedModel, out: Path, started: float, *, quiet: bool, as_json: bool
) -> None:
    from pacbayes.certificates.explanation import percent

    if as_json:
        print(json.dumps(_as_dict(fitted, out)))
        return
    model = fitted.model
    if not quiet and len(model.certificates_) > 1:
        for name, c in model.certificates_.items():
            errors = f"{c.losses:g} errors on {c.n} {c.unit}"
            print(f"  {name:20} {errors}, bound {c.shown}")
    print(f"Certificate: {model.certificate_ or 'none'}")
    for c in fitted.others:
        print(f"  {c.quantity}: at most {c.shown}, on {c.n} {c.unit}")
    for note in fitted.remarks:
        print(f"Note: {note}.")
    if fitted.test_error is not None:
        noun = "error" if model.loss == "error" else f"{model.loss} error"
        print(f"Test {noun}: {percent(fitted.test_error)} of {fitted.test_size} examples.")
    print(f"Written to {out}")
    remark(f"Took {took(started)}. Next: {command('verify', out)}", quiet=quiet)


def _as_dict(fitted: FittedModel, out: Path) -> dict[str, object]:
    c = fitted.model.certificate_
    return {
        "run": str(out),
        "chosen": fitted.model.chosen_,
        "certificate": None if c is None else c.as_dict(),
        "others": {c.quantity: c.as_dict() for c in fitted.others},
        "test_error": fitted.test_error,
        "remarks": fitted.remarks,
    }
