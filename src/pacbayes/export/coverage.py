"""The certificate that covers an exported predictor, or why none does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacbayes.bounds import percent_up
from pacbayes.choices import Predictor
from pacbayes.files import DamagedFileError, file_sha256, load_json
from pacbayes.runs.folder import Run

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
    certified, claim = _claim(path)
    if certified != file_sha256(run.folder / "posterior.safetensors"):
        return _uncovered(f"{path.name} covers another posterior")
    name = claim["bound_name"]
    if method is Predictor.VOTE and sampled and name != "first-order":  # Markov's holds for any T
        return _uncovered(f"{name} covers the vote of all of Q, not of T draws")
    says = _covered(path, claim, sampled=sampled)
    if rounded:
        return _uncovered(f"{_ROUNDED}, which would be {says}; --format torch is")
    return {"says": says, "file": path.name, "sha256": file_sha256(path), **claim}


def _claim(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the hash of the certified posterior, and the name, bound and δ of a certificate."""
    record = load_json(path)
    try:
        claim = {name: record[name] for name in ("bound_name", "bound", "delta")}
        return record["provenance"]["posterior_sha256"], claim
    except (KeyError, TypeError) as error:
        raise DamagedFileError(
            f"{path} is damaged: it lacks the fields of a certificate; issue it again with certify"
        ) from error


def _uncovered(why: str) -> dict[str, Any]:
    return {"says": f"not covered by a certificate: {why}"}


def _covered(path: Path, claim: Mapping[str, Any], *, sampled: bool) -> str:
    terms = f"{claim['bound_name']}, δ = {claim['delta']:g}"
    says = f"covered by {path.name} ({terms}): at most {percent_up(claim['bound'])} error"
    fresh = " if every prediction has fresh noise" if sampled else ""
    nothing = " (vacuous: it says nothing)" if claim["bound"] >= 1 else ""
    return f"{says}{fresh}{nothing}"
