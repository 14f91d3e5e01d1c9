"""Read a certificate from its file."""

from __future__ import annotations

from pathlib import Path

from pacbayes.certificates.certificate import FORMAT, Certificate
from pacbayes.files import DamagedFileError, load_versioned, parsed

__all__ = ["read_certificate"]


def read_certificate(path: Path) -> Certificate:
    """Return the certificate in a file; raise DamagedFileError if it is not one."""
    record = load_versioned(path, FORMAT, FORMAT)
    if isinstance(record, dict):
        record.pop("format", None)
    certificate = parsed(Certificate, record, path)
    versions = certificate.provenance.get("versions", {})
    if not (isinstance(versions, dict) and all(isinstance(v, str) for v in versions.values())):
        raise DamagedFileError(f"{path} is damaged: its versions are not texts; issue it again")
    return certificate
