"""A trained run's predictors for those who do not have this library."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import Format, Method
from pacbayes.cli.options import AsJson, RunFolder, check_samples

if TYPE_CHECKING:
    from pacbayes.export import Export
    from pacbayes.export.predictors import Port

__all__ = ["export"]


def export(
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="onnx, or a torch.export program.")],
    out: Annotated[Path, typer.Option(help="File: .onnx, or .pt2 of torch.")],
    method: Annotated[
        Method,
        typer.Option(
            help="randomised: fresh weights each time; vote: majority over T draws; drawn: the "
            "network that disintegrated certified."
        ),
    ] = "randomised",
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Write a predictor as a file that runs without this library.

    Its noise is an input of the graph. Before the file is put in place it is run on some of the
    run's examples and compared with the library.

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
    print(f"Greatest difference from the library, {e.examples} examples: {e.difference:.1e}")
    print(f"Certificate: {e.certificate}\n\n{e.code}")


def _shape(port: Port) -> str:
    return f"{port.name:8} {port.dtype:8} ({', '.join(map(str, port.shape))})"
