"""Certificates in files: what each format writes of the record, and how it is read."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import FORMAT, Certificate
from pacbayes.certificates.units import mean_upper
from pacbayes.files import DamagedFileError, damaged, load_versioned, parsed

__all__ = ["read_certificate", "read_classifier", "written"]

# fmt: off
_NETWORK = (
    "predictor", "bound", "bound_name", "parameters", "delta", "ledger", "risk", "risk_upper",
    "monte_carlo", "samples", "draws", "variance", "within", "quadrature_step", "quadrature_error",
    "n", "kl", "kl_by_part", "class_name", "assumptions", "provenance",
)
_CLASSIFIER = (
    "bound", "quantity", "predictor", "theorem", "n", "unit", "losses", "delta", "ledger", "part",
    "kl", "scale", "assumptions", "provenance", "remarks",
)
# fmt: on
_MEANS = {"held-out-mean": "kl-chernoff"}  # name of a theorem, in files of classifiers


def written(c: Certificate) -> dict[str, Any]:
    """Return a certificate as its file has it, without the number of the format."""
    network = c.assumptions.covers == "network"
    names = _NETWORK if network else _CLASSIFIER
    plain = {name: deepcopy(getattr(c, name)) for name in names}
    if network:
        plain["assumptions"] = asdict(c.assumptions)
        del plain["assumptions"]["covers"]
    else:
        plain["assumptions"] = tuple(c.assumptions)
        plain["theorem"] = _MEANS.get(c.theorem, c.theorem)
    return plain


def read_certificate(path: Path) -> Certificate:
    """Return the certificate of a network; raise DamagedFileError if the file has none."""
    record = load_versioned(path, FORMAT, FORMAT)
    if not isinstance(record, dict):
        return parsed(Certificate, record, path)
    record = _fields(record, _NETWORK, path, optional=("class_name", "assumptions", "provenance"))
    record["theorem"] = name = record.pop("bound_name")
    parts, only = record["ledger"], "pac-bayes"  # with best-of every theorem has its own part
    record["part"] = only if isinstance(parts, dict) and only in parts else f"{only}, {name}"
    if (of := record.pop("class_name", None)) is not None:
        record["subset"] = f"class {of}"
    if isinstance(assumed := record.get("assumptions"), dict):
        record["assumptions"] = {k: v for k, v in assumed.items() if k != "covers"}
    certificate = parsed(Certificate, record, path)
    versions = certificate.provenance.get("versions", {})
    if not (isinstance(versions, dict) and all(isinstance(v, str) for v in versions.values())):
        raise DamagedFileError(f"{path} is damaged: its versions are not texts; issue it again")
    return certificate


def _fields(
    record: dict[str, Any], names: tuple[str, ...], path: Path, optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the fields of a record; raise DamagedFileError unless they are those of the format."""
    found = {name: value for name, value in record.items() if name != "format"}
    if unknown := sorted(found.keys() - set(names)):
        raise damaged(path, f"the field {unknown[0]!r} is unknown")
    for name in names:
        if name not in found and name not in optional:
            raise damaged(path, f"{name}: Field required")
    return found


def read_classifier(
    record: dict[str, Any], assumptions: Assumptions, path: Path, risk_upper: float | None = None
) -> Certificate:
    """Return one of the certificates in the file of a classifier.

    Args:
        assumptions: as run.json has them; `verify` compares the sentences in the file with them.
        risk_upper: what the theorem of a vote takes, which the file does not say.
    """
    record = _fields(record, _CLASSIFIER, path)
    names = {file: ours for ours, file in _MEANS.items()}
    record["theorem"] = names.get(record["theorem"], record["theorem"])
    words, total, n = record.pop("quantity"), record["losses"], record["n"]
    if assumptions.group is not None:
        words = words.removeprefix("mean ").removesuffix(" within a new group")
    record["noun"], _, whom = words.partition(" on ")
    if whom:
        one = whom.startswith("class ")
        record["subset"] = whom if one else whom.removesuffix(" examples")
    if risk_upper is None:
        binary = record["theorem"] == "held-out"
        risk_upper = mean_upper(total / record["scale"], n, binary=binary)
    record |= {"risk": total / n if n else math.nan, "risk_upper": risk_upper}
    del record["unit"]
    return parsed(Certificate, record | {"assumptions": asdict(assumptions)}, path)
