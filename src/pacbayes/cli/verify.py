"""Check certificates."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import AsJson, DataFile
from pacbayes.cli.predict import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from pacbayes.redraw import Body
    from pacbayes.verify import Finding

    Prior = dict[str, NDArray[np.float32]]

__all__ = ["check_unchanged", "files_in", "show_checks", "verify"]


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

    paths = certificates_in(certificate)
    before = files_in(paths[0].parent)
    check = partial(verified, full=full, data=data)
    prior = _learned_again(paths[0].parent, data) if relearn else None
    check = partial(check, prior=prior, body=_body(paths[0].parent, prior) if full else None)
    if as_json:
        found = [list(check(path)) for path in paths]
        check_unchanged(paths[0].parent, before, chain(*found))
        _print_json(list(chain(*found)))
    else:
        found = [show_checks(check(path), path.name if paths[1:] else None) for path in paths]
        check_unchanged(paths[0].parent, before, chain(*found))
        _conclude(found, paths, started)
    if not _hold(chain(*found)):
        raise typer.Exit(1)


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the files that a check may read, and by what a replaced one differs."""
    found: dict[str, tuple[int, int]] = {}
    for path in folder.glob("[!.]*.*"):
        with suppress(FileNotFoundError):  # it was replaced just now
            found[path.name] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def check_unchanged(
    folder: Path, before: dict[str, tuple[int, int]], findings: Iterable[Finding]
) -> None:
    """Raise ValueError if a check failed while the files changed: it mixed old and new ones."""
    if not _hold(findings) and files_in(folder) != before:
        raise ValueError(f"{folder} was written to during the check; verify it again after that")


def _print_json(found: list[Finding]) -> None:
    print(json.dumps({"holds": _hold(found), "findings": [asdict(f) for f in found]}))


def _body(run: Path, prior: Prior | None) -> Body | None:
    """Return the module of a run that is not dense, which runs its code."""
    path = run / "run.json"
    record = json.loads(path.read_bytes()) if path.is_file() else None
    if not isinstance(record, dict) or record.get("network") is None:
        return None  # dense, and no PyTorch is needed; or damaged, as the checks will say
    from pacbayes import runs
    from pacbayes.runs.evaluation import module_body

    return module_body(runs.open_run(run), prior)


def _learned_again(run: Path, data: Path | None) -> Prior:
    import numpy as np

    from pacbayes import runs
    from pacbayes.cli import console

    opened = runs.open_run(run)
    with console.waiting("learning the prior again"):
        prior = runs.learn_again(opened, opened.load_data(data))
    own = {name: tensor.numpy() for name, tensor in opened.load_prior().items()}
    same = all(np.array_equal(own[name], tensor) for name, tensor in prior.items())
    console.remark(
        "The prior learned again is the same, bit for bit."
        if same
        else "The prior learned again differs, as it may on another machine: "
        f"the bounds are derived with it. {'; '.join(opened.changed_versions)}"
    )
    return prior


def show_checks(findings: Iterable[Finding], name: str | None) -> list[Finding]:
    """Print each check of a certificate as soon as it is known, and return them all."""
    if name is not None:
        print(f"{name}:")
    found = []
    for f in findings:
        mark = "FAIL" if not f.holds else "    " if f.word else "ok  "
        print(printable(f"{mark}  {'Not checked' if f.word else f.name}: {f.detail}"))
        found.append(f)
    return found


def _conclude(found: list[list[Finding]], paths: list[Path], started: float) -> None:
    from pacbayes.cli import console

    count = sum(not finding.word for finding in chain(*found))
    checks, one = f"{count} checks, {console.took(started)}.", len(found) == 1
    if _hold(chain(*found)):
        for findings, path in zip(found, paths, strict=True):
            which = "" if one else f", {path.name}"
            number, caveat = _number(findings, path), _reservation(findings)
            print(printable(f"Verified{which}: {number}{caveat}."), flush=True)
        console.remark(f"{checks} Next: {console.command('predict', paths[0].parent, 'DATA')}")
    else:
        which = "The certificate does" if one else "At least one certificate does"
        print(f"{which} NOT hold.", flush=True)
        console.remark(checks)


def _number(findings: list[Finding], path: Path) -> str:
    """Return the verifier's own number for a certificate, and what it is about."""
    from pacbayes.bounds import confidence, percent_up

    claim = json.loads(path.read_bytes())
    (own,) = (finding.bound for finding in findings if finding.bound is not None)
    name = claim.get("class_name")
    where = "" if name is None else f" on class {name}"
    return f"at most {percent_up(own)} error{where} with probability {confidence(claim['delta'])}"


def _reservation(findings: list[Finding]) -> str:
    """Return the remark that --full would measure a risk that was taken as claimed."""
    if _measured(findings):
        return ""
    return " (training risk taken as claimed; use --full to measure it)"


def _measured(findings: list[Finding]) -> bool:
    return any(finding.measures_risk for finding in findings)


def _hold(findings: Iterable[Finding]) -> bool:
    return all(finding.holds for finding in findings)
