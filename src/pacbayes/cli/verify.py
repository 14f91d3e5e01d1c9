"""Check certificates."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import AsJson

if TYPE_CHECKING:
    from pacbayes.verify import Finding

__all__ = ["verify"]


def verify(
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE",
            help="A certificate.json or a run folder.",
            autocompletion=completion.runs,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Also sample the risk again; a minute on MNIST.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check certificates using only the files beside them.

    Computes the hashes, the δ ledger, n, the KL, the Monte-Carlo term and the bound again, in
    interval arithmetic and without PyTorch. The training risk is taken as claimed unless --full
    samples it again; the errors of a drawn network are always counted.
    Exit code 1 means that a check failed.

    pacbayes verify runs/mine

    pacbayes verify runs/mine/certificate.json --full
    """
    started = time.monotonic()
    from pacbayes.verify import certificates_in
    from pacbayes.verify import verify as check

    paths = certificates_in(certificate)
    found: list[list[Finding]] = []
    for path in paths:
        if len(paths) > 1 and not as_json:
            print(f"{path.name}:")
        found.append([_shown(finding, as_json) for finding in check(path, full=full)])
    everything = list(chain(*found))
    holds = all(finding.holds for finding in everything)
    if as_json:
        print(json.dumps({"holds": holds, "findings": [asdict(f) for f in everything]}))
    else:
        _conclude(found, paths[0].parent, time.monotonic() - started)
    if not holds:
        raise typer.Exit(1)


def _shown(finding: Finding, as_json: bool) -> Finding:
    """Print a finding as soon as it is known."""
    if not as_json:
        print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.name}: {finding.detail}")
    return finding


def _conclude(found: list[list[Finding]], run: Path, seconds: float) -> None:
    from pacbayes.cli import console

    holds = all(finding.holds for finding in chain(*found))
    measured = all(any(finding.measures_risk for finding in each) for each in found)
    claimed = "" if measured else " (training risk taken as claimed; use --full to measure it)"
    if holds:
        print(f"The certificate{' holds' if len(found) == 1 else 's hold'}{claimed}.", flush=True)
    else:
        which = "The certificate does" if len(found) == 1 else "At least one certificate does"
        print(f"{which} NOT hold.", flush=True)
    following = f" Next: {console.command('predict', run, 'DATA')}" if holds else ""
    checks = sum(map(len, found))
    console.remark(f"{checks} checks, {console.duration(seconds)}.{following}")
