"""Former names of the certificate of any model, until version 2.0."""

from __future__ import annotations

import warnings
from typing import Any

from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.units import certify_losses

__all__ = ["HeldOutCertificate", "certify_losses"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name != "HeldOutCertificate":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    said = f"{name} is pacbayes.Certificate now; the old name ends with version 2.0"
    warnings.warn(said, DeprecationWarning, stacklevel=2)
    return Certificate
