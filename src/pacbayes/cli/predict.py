"""Predict labels with a trained run."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import Predictor
from pacbayes.cli.options import (
    AsJson,
    RunFolder,
    Threads,
    check_samples,
    complete_datasets,
    set_threads,
)
from pacbayes.cli.streams import command, harmless, remark, took

if TYPE_CHECKING:
    from pacbayes.folders import Run
    from pacbayes.folders.prediction import Prediction

__all__ = ["predict"]


def predict(
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
    check_samples(samples)
    set_threads(threads)
    from pacbayes import folders

    opened = folders.open_run(run)
    method = method or folders.certified_predictor(opened)
    if out is not None:
        _check_out(out, opened, data, ".json" if as_json else ".csv")
    prediction = folders.predict(opened, data, method, samples=samples, seed=seed, label=label)
    if as_json:
        write(json.dumps(asdict(prediction)) + "\n", out)
    else:
        write(_as_csv(prediction), out)
        _describe(prediction, out)
        remark(f"Took {took(started)}.{_doubt(opened, run, method)}")


def _only_all_of_q(path: Path) -> str:
    """Return a remark if the vote's theorem does not cover a vote of some draws."""
    from pacbayes.certificates.certificate import read_certificate

    name = read_certificate(path).bound_name
    if name == "first-order":  # Markov's inequality holds for any number of draws
        return ""
    return f" {path.name} ({name}) covers the vote of all of Q, not of some draws."


def _check_out(out: Path, run: Run, data: str, suffix: str) -> None:
    """Refuse a file of another kind, and one that the run or the data are read from."""
    if out.suffix != suffix:
        raise ValueError(f"--out must be a {suffix} file, got {out}")
    source = run.record.data.source.located(run.folder)
    inputs = map(Path, filter(None, (data, source.name, source.test)))
    if out.resolve() in [path.resolve() for path in (*inputs, *run.folder.glob("*.json"))]:
        raise ValueError(f"--out {out} would overwrite an input; choose another file")


def write(text: str, out: Path | None) -> None:
    """Write a text to a file, or print it."""
    from pacbayes.files import write_atomically

    if out is None:
        print(text, end="", flush=True)  # remarks come after it
    else:
        write_atomically(out, text.encode())


def _as_csv(prediction: Prediction) -> str:
    columns = {"label": [harmless(label) for label in prediction.labels]}
    if prediction.votes:
        columns["vote"] = [f"{vote:.6f}" for vote in prediction.votes]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def _describe(prediction: Prediction, out: Path | None) -> None:
    """Name the predictor, its error and the file on standard error."""
    from pacbayes.certificates.explanation import percent

    remark(f"{len(prediction.labels)} predictions by the {prediction.predictor}")
    if prediction.error is not None:
        remark(f"error on the labels given: {percent(prediction.error)}")
    if out is not None:
        remark(f"written to {out}")


def _doubt(opened: Run, folder: Path, method: Predictor) -> str:
    """Return the command that certifies the predictor, if no certificate covers it yet."""

    path = opened.certificate_path(method)
    if path.exists():
        return _only_all_of_q(path) if method is Predictor.VOTE else ""
    theorem = ("--bound", "tandem") if method is Predictor.VOTE else ()
    return f" No certificate covers this predictor yet: {command('certify', folder, *theorem)}"
