"""Predict labels with a trained run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import Predictor
from pacbayes.cli import completion
from pacbayes.cli.options import AsJson, RunFolder, Threads, check_samples, set_threads

if TYPE_CHECKING:
    from pacbayes.runs import Run

__all__ = ["predict"]


def predict(
    run: RunFolder,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A .npz or .csv file, or the name of a data set (its test part).",
            autocompletion=completion.datasets,
        ),
    ],
    method: Annotated[
        Predictor,
        typer.Option(
            help="randomised: fresh weights for each prediction, covered by certificate.json; "
            "vote: majority over T draws; drawn: the network that disintegrated certified."
        ),
    ] = Predictor.RANDOMISED,
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
    from pacbayes import runs
    from pacbayes.cli import console

    opened = runs.open_run(run)
    if out is not None:
        _check_out(out, opened, data, ".json" if as_json else ".csv")
    prediction = runs.predict(opened, data, method, samples=samples, seed=seed, label=label)
    console.show_prediction(prediction, out, as_json=as_json)
    if not as_json:
        theorem = ("--bound", "tandem") if method is Predictor.VOTE else ()
        certified = opened.certificate_path(method).exists()
        advice = console.command("certify", run, *theorem)
        doubt = "" if certified else f" No certificate covers this predictor yet: {advice}"
        console.remark(f"Took {console.duration(time.monotonic() - started)}.{doubt}")


def _check_out(out: Path, run: Run, data: str, suffix: str) -> None:
    """Refuse a file of another kind, and one that the run or the data are read from."""
    if out.suffix != suffix:
        raise ValueError(f"--out must be a {suffix} file, got {out}")
    source = run.record.data.source
    kept = [Path(p).resolve() for p in (data, source.name, source.test) if p is not None]
    if out.resolve() in [*kept, *(path.resolve() for path in run.folder.glob("*.json"))]:
        raise ValueError(f"--out {out} would overwrite an input; choose another file")
