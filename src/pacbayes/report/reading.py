"""Records of a folder as the dataclasses they were written from."""

from __future__ import annotations

import math
from pathlib import Path

from pacbayes.certificates.certificate import Certificate
from pacbayes.files import DamagedFileError, load_json, parsed
from pacbayes.training.loop import Evaluation

__all__ = ["read_certificate", "read_history"]

_CLOSE = 1e-9


def read_history(path: Path) -> tuple[Evaluation, ...]:
    record = load_json(path)
    if not isinstance(record, list) or not record:
        raise DamagedFileError(f"{path} has no evaluations")
    return tuple(parsed(Evaluation, e, path) for e in record)


def read_certificate(path: Path) -> Certificate:
    """A certificate that `verify` has found well-formed; its parts are looked at here.

    They are what a bar is drawn of, and no theorem needs them.
    """
    record = load_json(path)
    c = parsed(Certificate, {key: record[key] for key in record if key != "format"}, path)
    names = {"risk", "monte-carlo", "log terms", *(f"KL of {name}" for name in c.kl_by_part)}
    if c.contributions.keys() != names:
        raise DamagedFileError(f"{path}: contributions are not those of its layers")
    total = math.fsum(c.contributions.values())
    if not abs(total - c.bound) < _CLOSE:
        raise DamagedFileError(f"{path}: contributions add up to {total:.6g}, not to {c.bound:.6g}")
    return c
