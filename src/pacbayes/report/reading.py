"""Read the JSON files of a run folder as the dataclasses they were written from."""

from __future__ import annotations

import math
from pathlib import Path

from pacbayes.certificates.certificate import Certificate
from pacbayes.files import DamagedFileError, load_json, parsed
from pacbayes.training.loop import Evaluation

__all__ = ["read_certificate", "read_history"]

_TOLERANCE = 1e-9


def read_history(path: Path) -> tuple[Evaluation, ...]:
    """Return the evaluations of a run; raise DamagedFileError if there are none."""
    record = load_json(path)
    if not isinstance(record, list) or not record:
        raise DamagedFileError(f"{path} has no evaluations; train the run with pacbayes train")
    return tuple(parsed(Evaluation, e, path) for e in record)


def read_certificate(path: Path) -> Certificate:
    """Return a certificate that `verify` has found well-formed.

    Check that its contributions add up to the bound: the page draws them, but no theorem uses them,
    so `verify` does not look at them.
    """
    record = load_json(path)
    c = parsed(Certificate, {key: record[key] for key in record if key != "format"}, path)
    _check_contributions(c, path)
    return c


def _check_contributions(c: Certificate, path: Path) -> None:
    advice = "issue the certificate again with pacbayes certify"
    expected = {"risk", "monte-carlo", "log terms", *(f"KL of {name}" for name in c.kl_by_part)}
    if wrong := expected ^ c.contributions.keys():
        names = ", ".join(sorted(wrong))
        raise DamagedFileError(f"{path}: contributions missing or unknown: {names}; {advice}")
    total = math.fsum(c.contributions.values())
    if not abs(total - c.bound) < _TOLERANCE:
        raise DamagedFileError(
            f"{path}: contributions add up to {total:.6g}, but the bound is {c.bound:.6g}; {advice}"
        )
