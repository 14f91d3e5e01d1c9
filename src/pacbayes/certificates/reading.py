"""Read a certificate from its file."""

from __future__ import annotations

from pathlib import Path

from pacbayes.certificates.certificate import Certificate
from pacbayes.files import load_json, parsed

__all__ = ["read_certificate"]


def read_certificate(path: Path) -> Certificate:
    """Return the certificate in a file; raise DamagedFileError if it is not one."""
    record = load_json(path)
    if isinstance(record, dict):
        record.pop("format", None)
    return parsed(Certificate, record, path)
