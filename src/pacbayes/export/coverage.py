"""The certificate that covers an exported predictor, or why none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.choices import Predictor
from pacbayes.files import file_sha256
from pacbayes.folders.folder import Run

__all__ = ["covering_certificate"]

_ROUNDED = "it computes in float32, so that a label may differ from the network's in float64"


def covering_certificate(
    run: Run, method: Predictor, *, sampled: bool, rounded: bool
) -> dict[str, Any]:
    """Return the claim of the certificate in the folder, if it covers this predictor.

    Args:
        sampled: whether the predictor takes noise.
        rounded: whether it computes in float32 what the certificate covers in float64.
    """
    path = run.certificate_path(method)
    if not path.exists():
        return _uncovered(f"the run has no {path.name}")
    c = read_certificate(path)
    if c.provenance.get("posterior_sha256") != file_sha256(run.folder / "posterior.safetensors"):
        return _uncovered(f"{path.name} covers another posterior")
    if method is Predictor.VOTE and sampled and c.bound_name != "first-order":  # holds for any T
        return _uncovered(f"{c.bound_name} covers the vote of all of Q, not of T draws")
    says = _covered(path, c, sampled=sampled)
    if rounded:
        return _uncovered(f"{_ROUNDED}, which would be {says}; --format torch is")
    claim = {"bound_name": c.bound_name, "bound": c.bound, "delta": c.delta}
    return {"says": says, "file": path.name, "sha256": file_sha256(path), **claim}


def _uncovered(why: str) -> dict[str, Any]:
    return {"says": f"not covered by a certificate: {why}"}


def _covered(path: Path, c: Certificate, *, sampled: bool) -> str:
    terms = f"{c.bound_name}, δ = {c.delta:g}"
    says = f"covered by {path.name} ({terms}): at most {percent_up(c.bound)} error"
    fresh = " if every prediction has fresh noise" if sampled else ""
    nothing = " (vacuous: it says nothing)" if c.vacuous else ""
    return f"{says}{fresh}{nothing}"
