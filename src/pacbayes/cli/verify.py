"""Check certificates."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.cli import console
from pacbayes.cli.options import (
    AsJson,
    DataFile,
    best_of_scales,
    complete_runs,
    is_classifier,
    is_kernel,
)
from pacbayes.cli.streams import command, printable, remark, took

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pacbayes.verify import Finding
    from pacbayes.verify.redraw import Body, Weights

__all__ = ["verify"]


def verify(
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE",
            help="A certificate.json or a run folder.",
            autocompletion=complete_runs,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Also make the draws again; a minute on MNIST.")
    ] = False,
    relearn: Annotated[
        bool,
        typer.Option("--relearn", help="Also learn the prior again from its part of the data."),
    ] = False,
    data: DataFile = None,
    as_json: AsJson = False,
) -> None:
    """Check certificates using only the files beside them.

    Computes the hashes, the δ ledger, n, a data-free prior, the KL, the Monte-Carlo term and the
    bound again, in interval arithmetic and without PyTorch. The training risk is taken as claimed
    unless --full makes the same draws again; the errors of a drawn network are always counted, but
    those of convolutions and modules of your own only with --full, which runs their code. A
    learned prior is taken as learned from its part unless --relearn learns it again, with PyTorch.
    Exit code 1 means that a check failed.

    pacbayes verify runs/mine

    pacbayes verify runs/mine/certificate.json --full
    """
    started = time.monotonic()
    from pacbayes.verify import certificates_in
    from pacbayes.verify import verify as verified

    certificate = best_of_scales(certificate)
    for other, kind in ((is_classifier, "a classifier"), (is_kernel, "a kernel network")):
        if relearn and other(certificate):
            raise ValueError(f"--relearn has no effect on {certificate}, {kind}; leave it out")
    paths = certificates_in(certificate)
    folder = paths[0].parent
    before = _files_in(folder)
    prior = _learned_again(folder, data) if relearn else None
    body = _body(folder, prior) if full else None
    found = []
    for path in paths:
        checks = verified(path, full=full, data=data, prior=prior, body=body, replay=_replay)
        found.append(_steps(checks, path.name if paths[1:] else "", as_json))
    every = [finding for findings in found for finding in findings]
    holds = all(finding.holds for finding in every)
    if not holds and _files_in(folder) != before:  # old and new ones were mixed
        raise ValueError(f"{folder} was written to during the check; verify it again after that")
    if as_json:
        print(json.dumps({"holds": holds, "findings": [asdict(finding) for finding in every]}))
    else:
        count = sum(not finding.word for finding in every)
        _conclude(found, paths, holds, f"{count} checks, {took(started)}.")
    if not holds:
        raise typer.Exit(1)


def _files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the files that a check may read, and by what a replaced one differs."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.glob("[!.]*.*"):
        with suppress(FileNotFoundError):  # it was replaced just now
            found[path.name] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def _body(run: Path, prior: Weights | None) -> Body | None:
    """Return the module of a run that is not dense, which runs its code."""
    path = run / "run.json"
    record = json.loads(path.read_bytes()) if path.is_file() else None
    if not isinstance(record, dict) or record.get("network") is None:
        return None  # dense, and no PyTorch is needed; or damaged, as the checks will say
    from pacbayes import folders
    from pacbayes.folders.prediction import module_body

    return module_body(folders.open_run(run), prior)


def _replay(path: Path, data: Path | None) -> Iterator[Finding]:
    """Predict again with the models of a classifier, which runs them."""
    from pacbayes.folders.replaying import replay

    return replay(path, data)


def _learned_again(run: Path, data: Path | None) -> Weights:
    import numpy as np

    from pacbayes import folders

    opened = folders.open_run(run)
    with console.waiting("learning the prior again"):
        prior = folders.learn_again(opened, opened.load_data(data))
    own = {name: tensor.numpy() for name, tensor in opened.load_prior().items()}
    same = all(np.array_equal(own[name], tensor) for name, tensor in prior.items())
    remark(
        "The prior learned again is the same, bit for bit."
        if same
        else "The prior learned again differs, as it may on another machine: "
        f"the bounds are derived with it. {'; '.join(opened.changed_versions)}"
    )
    return prior


def _steps(findings: Iterable[Finding], name: str, as_json: bool) -> list[Finding]:
    """Print each check of a certificate as soon as it is known, and return them all."""
    if as_json:
        return list(findings)
    if name:
        print(f"{name}:")
    found = []
    for f in findings:
        mark = "FAIL" if not f.holds else "    " if f.word else "ok  "
        print(printable(f"{mark}  {'Not checked' if f.word else f.name}: {f.detail}"))
        found.append(f)
    return found


def _conclude(found: list[list[Finding]], paths: list[Path], holds: bool, checks: str) -> None:
    one = len(found) == 1
    if holds:
        for findings, path in zip(found, paths, strict=True):
            which = "" if one else f", {path.name}"
            print(printable(f"Verified{which}: {_number(findings, path)}."), flush=True)
        remark(f"{checks} Next: {command('predict', paths[0].parent, 'DATA')}")
    else:
        which = "The certificate does" if one else "At least one certificate does"
        print(f"{which} NOT hold.", flush=True)
        remark(checks)


def _number(findings: list[Finding], path: Path) -> str:
    """Return the number that was verified, what it is about, and what --full would measure."""
    from pacbayes.bounds import confidence, percent_up
    from pacbayes.bounds.domain import number_up

    claim = json.loads(path.read_bytes())
    if several := claim.get("certificates"):  # of a classifier, and all of them hold
        c = several[claim["chosen"]]
        value = percent_up(c["bound"]) if c["scale"] == 1 else number_up(c["bound"])
        what, whom = f"{value} {c['quantity']}", f": {c['predictor']}"
        taken = "predictions taken as recorded; use --full to make them again"
    else:
        c, name = claim, claim.get("class_name")
        (own,) = (finding.bound for finding in findings if finding.bound is not None)
        what, whom = f"{percent_up(own)} error{'' if name is None else f' on class {name}'}", ""
        taken = "training risk taken as claimed; use --full to measure it"
    caveat = "" if any(finding.measures_risk for finding in findings) else f" ({taken})"
    return f"at most {what} with probability {confidence(c['delta'])}{whom}{caveat}"
