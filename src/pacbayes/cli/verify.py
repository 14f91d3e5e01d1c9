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
    from collections.abc import Iterable

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
    if as_json:
        found = [list(check(path, full=full)) for path in paths]
        _print_json(list(chain(*found)))
    else:
        found = [_show_checks(path, full=full, named=len(paths) > 1) for path in paths]
        _conclude(found, paths[0].parent, started)
    if not _hold(chain(*found)):
        raise typer.Exit(1)


def _print_json(found: list[Finding]) -> None:
    print(json.dumps({"holds": _hold(found), "findings": [asdict(f) for f in found]}))


def _show_checks(path: Path, *, full: bool, named: bool) -> list[Finding]:
    """Print each check of a certificate as soon as it is known, and return them all."""
    from pacbayes.verify import verify as check

    if named:
        print(f"{path.name}:")
    found = []
    for finding in check(path, full=full):
        print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.name}: {finding.detail}")
        found.append(finding)
    return found


def _conclude(found: list[list[Finding]], run: Path, started: float) -> None:
    from pacbayes.cli import console

    checks = f"{sum(map(len, found))} checks, {console.took(started)}."
    one = len(found) == 1
    if _hold(chain(*found)):
        print(f"The certificate{' holds' if one else 's hold'}{_reservation(found)}.", flush=True)
        console.remark(f"{checks} Next: {console.command('predict', run, 'DATA')}")
    else:
        which = "The certificate does" if one else "At least one certificate does"
        print(f"{which} NOT hold.", flush=True)
        console.remark(checks)


def _reservation(found: list[list[Finding]]) -> str:
    """Return the remark that --full would measure a risk that was taken as claimed."""
    if all(map(_measured, found)):
        return ""
    return " (training risk taken as claimed; use --full to measure it)"


def _measured(findings: list[Finding]) -> bool:
    return any(finding.measures_risk for finding in findings)


def _hold(findings: Iterable[Finding]) -> bool:
    return all(finding.holds for finding in findings)
