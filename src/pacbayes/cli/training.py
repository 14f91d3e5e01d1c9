"""Train a run, or several that differ in their prior's scale."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes.choices import (
    Activation,
    Augmentation,
    Engine,
    Estimator,
    Objective,
    Protocol,
)
from pacbayes.cli.options import (
    AsJson,
    Threads,
    numbers,
    set_threads,
    widths_of,
)

__all__ = ["train"]


def train(
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run in it is resumed.")],
    dataset: Annotated[
        str, typer.Option(help="mnist, binary-mnist, digits, … or a .npz/.csv file.")
    ] = "binary-mnist",
    data_folder: Annotated[Path | None, typer.Option(help="Folder with IDX files.")] = None,
    test_data: Annotated[Path | None, typer.Option(help="Test file for one's own data.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of a CSV file.  [default: the last]")
    ] = None,
    fallback: Annotated[
        str | None, typer.Option(help="Data set to use if the first cannot be obtained.")
    ] = None,
    protocol: Annotated[Protocol, typer.Option(help="Recipe that the other options change.")] = (
        "fast"
    ),
    activation: Annotated[Activation, typer.Option(help="Hidden units.")] = "relu",
    objective: Annotated[
        Objective | None,
        typer.Option(help="Keep λ, learn it, or take small-kl's.  [default: fix-lambda]"),
    ] = None,
    estimator: Annotated[Estimator | None, typer.Option(help="Gradient of sign units.")] = None,
    widths: Annotated[
        str | None, typer.Option(help="Hidden layers, as 100,100,100; none for a linear model.")
    ] = None,
    learned_scale: Annotated[
        bool | None, typer.Option("--learned-scale/--unit-scale", help="Deviations of Q.")
    ] = None,
    prior_scale: Annotated[
        str | None,
        typer.Option(help="Deviation of P, or several to try, each paid for: 0.02,0.05."),
    ] = None,
    prior_fraction: Annotated[
        float | None, typer.Option(help="Part of the examples P learns from; the rest is bound on.")
    ] = None,
    prior_epochs: Annotated[int | None, typer.Option(help="Of learning P.")] = None,
    prior_rate: Annotated[float | None, typer.Option(help="Adam's rate in learning P.")] = None,
    prior_augmentation: Annotated[
        Augmentation | None, typer.Option(help="Turn and shift the images P learns from.")
    ] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="λ.  [default: n]")] = None,
    lambda_rate: Annotated[float | None, typer.Option(help="SGD rate of optim-lambda.")] = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Initial rate of Adam.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", "-T", help="T in training.")] = None,
    kl_warmup: Annotated[
        float | None, typer.Option(help="Part of the run in which the KL's weight grows.")
    ] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Epochs.")] = None,
    evaluation_samples: Annotated[int | None, typer.Option(help="T in evaluations.")] = None,
    engine: Annotated[Engine | None, typer.Option(help="native where it can be, or torch.")] = None,
    repeats: Annotated[
        bool | None, typer.Option("--repeats", help="Examples do occur more than once.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the bound that guides.")] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Train a network and leave a run folder; the same command again resumes it.

    pacbayes train --out runs/relu

    pacbayes train --dataset my.csv --activation sign --epochs 100 --out runs/mine

    pacbayes train --dataset mnist --prior-fraction 0.5 --prior-augmentation images --out runs/ten
    """
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

    given = {name: value for name, value in changes.items() if value is not None}
    settings = Settings.of(protocol, activation, objective, **given)  # complains before data load
    set_threads(threads)
    from pacbayes import console, preparation, runs
    from pacbayes.data import DataError
    from pacbayes.loop import learned_nothing
    from pacbayes.records import DataSource

    if Path(dataset).suffix:
        dataset = str(Path(dataset).resolve())
    texts = [None if path is None else str(path.resolve()) for path in (data_folder, test_data)]
    source = DataSource(dataset, texts[0], texts[1], label)
    try:
        data = source.load()
    except DataError as error:
        if fallback is None:
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
        folder = out if len(chosen) == 1 else out / f"scale-{scale:g}"
        steps = preparation.prior_steps(folder, own, source, data)
        console.show_prior(steps, own, quiet=as_json)
        begun.append(preparation.prepare(folder, own, source, data))
    for run in begun:
        note = runs.engine_note(run, data)
        console.show_training(runs.train_run(run, data), run, note, quiet=as_json)
    best = min(begun, key=lambda run: run.best.bound)
    if as_json:
        print(json.dumps({"run": str(best.folder), "evaluation": asdict(best.best)}))
        return
    if learned_nothing(best.best.risk, len(data.classes)):
        print(f"The network has learned nothing: {best.record.data.n} examples may be too")
        print("few for its size. Try fewer units (--widths 30) or none (--widths none).")
    of = f"Best of {len(begun)} prior scales: {best.settings.prior_scale:g}. " if begun[1:] else ""
    print(f"Trained. {of}Next: pacbayes certify {best.folder}")
