"""Export a trained run's predictors as files that run without this library."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import Format, Predictor
from pacbayes.cli.options import AsJson, RunFolder, check_samples

if TYPE_CHECKING:
    from pacbayes.export import Export
    from pacbayes.export.predictors import Port

__all__ = ["export"]


def export(
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="ONNX, or a torch.export program.")],
    out: Annotated[Path, typer.Option(help="File to write: .onnx, or .pt2 for torch.")],
    method: Annotated[
        Predictor,
        typer.Option(
            help="randomised: fresh weights every time; vote: majority over T draws; drawn: the "
            "network kept by certify --bound disintegrated; fixed: the one at the prior's means."
        ),
    ] = Predictor.RANDOMISED,
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote, T.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Write a predictor as a file that runs without this library.

    Noise is an input of the file's graph. Before the file is written, the graph is run on a few
    random inputs and compared with the library.

    pacbayes export runs/mine --format onnx --out mine.onnx

    pacbayes export runs/mine --format torch --method drawn --out mine.pt2
    """
    check_samples(samples)
    from pacbayes import runs
    from pacbayes.export import export_run

    exported = export_run(runs.open_run(run), out, format, method, samples=samples)
    if as_json:
        print(json.dumps(asdict(exported)))
    else:
        _show(exported)


def _show(e: Export) -> None:
    print(f"{e.file}: the {e.method} predictor, {e.format}")
    for kind, ports in (("input", e.inputs), ("output", e.outputs)):
        for port in ports:
            print(f"  {kind:6}  {_shape(port)}  {port.meaning}")
    print("  labels  " + ", ".join(f"{i}: {name}" for i, name in enumerate(e.classes)))
    print(f"Largest difference from the library on {e.examples} random inputs: {e.difference:.1e}")
    print(f"The predictor is {e.certificate}\n\n{e.code}")


def _shape(port: Port) -> str:
    return f"{port.name:8} {port.dtype:8} ({', '.join(map(str, port.shape))})"
