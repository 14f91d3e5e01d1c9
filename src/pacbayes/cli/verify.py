"""Check certificates."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import (
    AsJson,
)

__all__ = ["verify"]


def verify(
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE",
            help="A certificate.json, or its run folder.",
            autocompletion=completion.runs,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Also sample the risk anew; takes a minute on MNIST.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check certificates from the files beside them.

    Hashes, the δ ledger, n, the KL, the Monte-Carlo term and the bound are derived anew in interval
    arithmetic, without torch; the training risk is taken as claimed unless --full measures it, too,
    or it is that of a network drawn once, whose errors are counted.
    Exit code 1 if anything does not hold.

    pacbayes verify runs/mine

    pacbayes verify runs/mine/certificate.json --full
    """
    started = time.monotonic()
    from pacbayes.cli import console
    from pacbayes.verify import COUNTED
    from pacbayes.verify import verify as check

    paths = [certificate]
    if certificate.is_dir():
        paths = sorted(certificate.glob("certificate*.json")) or [certificate / "certificate.json"]
    found, measured = [], True
    for path in paths:
        if len(paths) > 1 and not as_json:
            print(f"{path.name}:")
        counted = full
        for finding in check(path, full=full):
            found.append(finding)
            counted = counted or finding.name == COUNTED
            if not as_json:
                print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.name}: {finding.detail}")
        measured = measured and counted
    holds = all(f.holds for f in found)
    if as_json:
        print(json.dumps({"holds": holds, "findings": [asdict(f) for f in found]}))
    else:
        certificates = "The certificate holds" if len(paths) == 1 else "The certificates hold"
        negative = "The certificate does NOT hold." if len(paths) == 1 else "NOT all hold."
        claimed = "" if measured else " (the training risk taken as claimed; --full measures it)"
        print(f"{certificates}{claimed}." if holds else negative, flush=True)
        took, folder = console.duration(time.monotonic() - started), paths[0].parent
        following = f" Next: {console.command('predict', folder, 'DATA')}" if holds else ""
        console.remark(f"{len(found)} checks, {took}.{following}")
    if not holds:
        raise typer.Exit(1)
