"""Read a certificate from its file."""

from __future__ import annotations

from pathlib import Path

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate
from pacbayes.files import load_json, parsed

__all__ = ["read_certificate"]


def read_certificate(path: Path) -> Certificate:
    """Return a certificate that `verify` has found well-formed."""
    record = load_json(path)
    record.pop("format", None)
    assumptions = parsed(Assumptions, record.pop("assumptions", {}), path)
    return parsed(Certificate, record | {"assumptions": assumptions}, path)
