"""Predict labels with a trained run."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbayes.choices import Predictor
from pacbayes.cli.options import (
    AsJson,
    RunFolder,
    Threads,
    best_of_scales,
    check_samples,
    complete_datasets,
    is_classifier,
    refuse_idle,
    set_threads,
)
from pacbayes.cli.streams import command, harmless, remark, took

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pacbayes.folders.folder import TrainedFolder
    from pacbayes.folders.prediction import Prediction

__all__ = ["predict"]

_OF_KERNELS = ("run", "data", "method", "label", "out", "seed", "threads", "as_json")


def predict(
    context: typer.Context,
    run: RunFolder,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A .csv, .tsv, .parquet or .npz file, or the name of a data set (its test part).",
            autocompletion=complete_datasets,
        ),
    ],
    method: Annotated[
        Predictor | None,
        typer.Option(
            help="randomised: fresh weights for each prediction; vote: majority over T draws; "
            "drawn: the network that disintegrated certified; fixed: the network at the prior's "
            "means.  [default: the one with the lowest certificate]"
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote.")] = 100,
    label: Annotated[str | None, typer.Option(help="Label column, if there is one.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file.  [default: print]")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; every example has draws of its own.")
    ] = 0,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict labels with a trained run, by any of its predictors.

    Labels go to standard output or a file. The predictor and its error, if labels are given, go to
    standard error.

    pacbayes predict runs/mine new.csv --out labels.csv

    pacbayes predict runs/mine new.csv --method vote -T 1000

    pacbayes predict runs/digits digits --json
    """
    started = time.monotonic()
    run = best_of_scales(run)
    if is_classifier(run):
        useful = ("run", "data", "label", "out", "as_json")
        refuse_idle(context, f"{run}, a classifier", useful=useful)
    check_samples(samples)
    set_threads(threads)
    from pacbayes import folders
    from pacbayes.folders.folder import TrainedFolder

    opened = folders.open(run)
    if isinstance(opened, TrainedFolder):
        asked: dict[str, Any] = {"seed": seed}
        if isinstance(opened, folders.Run):
            asked["samples"] = samples
        else:
            refuse_idle(context, f"{run}, a kernel network", useful=_OF_KERNELS)
        source = opened.record.data.source.located(opened.folder)
        inputs = filter(None, (data, source.name, source.test))
        _check_out(out, [*map(Path, inputs), *opened.folder.glob("*.json")], as_json=as_json)
        method = method or folders.certified_predictor(opened)
        asked["method"] = method
        _show(opened.predict(data, label, **asked), out, "the ", as_json=as_json)
        if not as_json:
            remark(f"Took {took(started)}.{_doubt(opened, run, method)}")
    else:
        _check_out(out, [Path(data), *run.iterdir()], as_json=as_json)
        _show(opened.predict(data, label), out, as_json=as_json)


def _check_out(out: Path | None, inputs: Iterable[Path], *, as_json: bool) -> None:
    """Refuse a file of another kind, and one that the folder or the data are read from."""
    if out is None:
        return
    if out.suffix != (suffix := ".json" if as_json else ".csv"):
        raise ValueError(f"--out must be a {suffix} file, got {out}")
    if out.resolve() in [path.resolve() for path in inputs]:
        raise ValueError(f"--out {out} would overwrite an input; choose another file")


def _show(prediction: Prediction, out: Path | None, article: str = "", *, as_json: bool) -> None:
    """Write predictions; describe them on standard error."""
    from pacbayes.certificates.explanation import percent

    if as_json:
        _write(json.dumps(asdict(prediction)) + "\n", out)
        return
    columns = {"label": [harmless(label) for label in prediction.labels]}
    for place, others in enumerate([*zip(*prediction.best or (), strict=True)][1:], 2):
        columns[f"label {place}"] = [*map(harmless, others)]
    if prediction.votes:
        columns["vote"] = [f"{vote:.6f}" for vote in prediction.votes]
    if prediction.answered is not None:
        columns["answered"] = [str(answered).lower() for answered in prediction.answered]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    _write(buffer.getvalue(), out)
    remark(f"{len(prediction.labels)} predictions by {article}{prediction.predictor}")
    if prediction.error is not None:
        whom = "labels given" if prediction.answered is None else "rows that it answers"
        noun = f"top-{len(prediction.best[0])} error" if prediction.best else "error"
        remark(f"{noun} on the {whom}: {percent(prediction.error)}")
    if out is not None:
        remark(f"written to {out}")


def _write(text: str, out: Path | None) -> None:
    """Write a text to a file, or print it."""
    from pacbayes.files import write_atomically

    if out is None:
        print(text, end="", flush=True)  # remarks come after it
    else:
        write_atomically(out, text.encode())


def _doubt(opened: TrainedFolder, folder: Path, method: Predictor) -> str:
    """Return the command that certifies the predictor, if no certificate covers it yet."""
    from pacbayes.certificates.certificate import read_certificate

    path = opened.certificate_path(method)
    if not path.exists():
        theorem = ("--bound", "tandem") if method is Predictor.VOTE else ()
        return f" No certificate covers this predictor yet: {command('certify', folder, *theorem)}"
    if method is not Predictor.VOTE:
        return ""
    name = read_certificate(path).bound_name
    if name == "first-order":  # Markov's inequality holds for any number of draws
        return ""
    return f" {path.name} ({name}) covers the vote of all of Q, not of some draws."
