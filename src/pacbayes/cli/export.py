"""Export a trained run's predictors as files that run without this library."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.choices import Format, Predictor
from pacbayes.cli.options import (
    AsJson,
    RunFolder,
    best_of_scales,
    check_samples,
    is_classifier,
    is_kernel,
    refuse_idle,
)
from pacbayes.cli.streams import printable

if TYPE_CHECKING:
    from pacbayes.export import Export
    from pacbayes.export.predictors import Port

__all__ = ["export"]

_SHOWN = 40  # inputs that are printed
_ONE_NETWORK = (Predictor.DRAWN.value, Predictor.FIXED.value)


def export(
    context: typer.Context,
    run: RunFolder,
    format: Annotated[Format, typer.Option(help="ONNX, or a torch.export program.")],
    out: Annotated[Path, typer.Option(help="File to write: .onnx, or .pt2 for torch.")],
    method: Annotated[
        Predictor | None,
        typer.Option(
            help="randomised: fresh weights every time; vote: majority over T draws; drawn: the "
            "network kept by certify --bound disintegrated; fixed: the one at the prior's means.  "
            "[default: the one with the lowest certificate]"
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote, T.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Write a predictor as a file that runs without this library.

    The file takes rows as the run's data have them; noise is another input. Before the file is
    put in place, its answers to rows of the data are compared with those of pacbayes predict.

    pacbayes export runs/mine --format onnx --out mine.onnx

    pacbayes export runs/mine --format torch --method drawn --out mine.pt2
    """
    run = best_of_scales(run)
    if is_classifier(run):
        refuse_idle(context, f"{run}, a classifier", useful=("run", "format", "out"))
        raise ValueError(
            f"{run}: a classifier of scikit-learn cannot be exported as {format} to the letter "
            "(converters round features to float32, and know no gradient boosting of this "
            "version), so the certificate would not cover the file; use pacbayes predict or "
            "pacbayes.load"
        )
    if is_kernel(run):
        raise ValueError(
            f"{run}: a kernel network cannot be exported yet; use pacbayes predict, or "
            "pacbayes.folders.kernels in Python"
        )
    check_samples(samples)
    from pacbayes import folders
    from pacbayes.export import export_run

    exported = export_run(folders.open_run(run), out, format, method, samples=samples)
    if as_json:
        print(json.dumps(asdict(exported)))
    else:
        _show(exported)


def _show(e: Export) -> None:
    print(f"{e.file}: the {e.method} predictor, {e.format}")
    _show_ports("input", e.inputs)
    _show_ports("output", e.outputs)
    print("  classes " + ", ".join(map(printable, e.classes)))
    given = "" if e.method in _ONE_NETWORK else ", given the same noise"
    print(f"The labels are those of pacbayes predict{given}, for {e.rows}.")
    print(f"Scores differ by at most {e.difference:.1e}.")
    print(f"The predictor is {e.certificate}\n\n{e.code}")


def _show_ports(kind: str, ports: tuple[Port, ...]) -> None:
    width = max(len(printable(port.name)) for port in ports[:_SHOWN])
    for port in ports[:_SHOWN]:
        shape = f"({', '.join(map(str, port.shape))})"
        print(
            f"  {kind:6}  {printable(port.name):{max(8, width)}} {port.dtype:8} {shape}", end="  "
        )
        print(printable(port.meaning))
    if more := len(ports[_SHOWN:]):
        print(f"  {kind:6}  and {more} more, which the metadata list")
