"""Predict labels with a trained run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import DRAWN, RANDOMISED, VOTE, Method
from pacbayes.cli import completion
from pacbayes.cli.options import (
    AsJson,
    RunFolder,
    Threads,
    check_samples,
    set_threads,
)

if TYPE_CHECKING:
    from pacbayes.runs.folder import Run

__all__ = ["predict"]


def predict(
    run: RunFolder,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A .npz/.csv file, or a data set's name (test part).",
            autocompletion=completion.datasets,
        ),
    ],
    method: Annotated[
        Method,
        typer.Option(
            help="randomised: fresh weights each time, what certificate.json covers; vote: "
            "majority over T draws; drawn: the network that disintegrated certified."
        ),
    ] = "randomised",
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote.")] = 100,
    label: Annotated[str | None, typer.Option(help="Label column, if there is one.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file.  [default: print]")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the draws, which are new for every new example.")
    ] = 0,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict labels with a trained run, by any of its predictors.

    Labels go to standard output or a file; what they are and how often they err, beside.

    pacbayes predict runs/mine new.csv --out labels.csv

    pacbayes predict runs/mine new.csv --method vote -T 1000

    pacbayes predict runs/digits digits --json
    """
    started = time.monotonic()
    check_samples(samples)
    set_threads(threads)
    from pacbayes import runs
    from pacbayes.cli import console
    from pacbayes.runs import prediction as predictions

    opened = runs.open_run(run)
    if out is not None:
        _check_out(out, opened, data, ".json" if as_json else ".csv")
    prediction = predictions.predict(opened, data, method, samples=samples, seed=seed, label=label)
    console.show_prediction(prediction, out, as_json=as_json)
    if not as_json:
        claims = {"randomised": RANDOMISED, "vote": VOTE, "drawn": DRAWN}
        theorem = ("--bound", "tandem") if method == "vote" else ()
        asked = console.command("certify", run, *theorem)
        certified = opened.certificate_path(claims[method]).exists()
        doubt = "" if certified else f" Nothing certifies this predictor yet: {asked}"
        console.remark(f"Took {console.duration(time.monotonic() - started)}.{doubt}")


def _check_out(out: Path, run: Run, data: str, suffix: str) -> None:
    """Labels go to a file of their kind, and over nothing that a run is made of."""
    if out.suffix != suffix:
        raise ValueError(f"--out must be a {suffix} file, got {out}")
    source = run.record.data.source
    kept = [Path(p).resolve() for p in (data, source.name, source.test) if p is not None]
    if out.resolve() in [*kept, *(path.resolve() for path in run.folder.glob("*.json"))]:
        raise ValueError(f"--out {out} would overwrite what is read; give another file")
