"""Issue the certificates of a saved classifier again, from its recorded predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds.domain import check_probability
from pacbayes.certificates.remarks import above_constant
from pacbayes.certified.assumptions import SplitAssumptions
from pacbayes.certified.certificate import HeldOutCertificate
from pacbayes.certified.claims import ANSWERED, OVERALL, UNANSWERED, BoundSet, share_out
from pacbayes.certified.evidence import Evidence
from pacbayes.certified.losses import Loss
from pacbayes.certified.saved.folder import issue, read_evidence
from pacbayes.certified.saved.record import (
    CERTIFICATE,
    EVIDENCE,
    ClassifierRecord,
    read_certificates,
    read_record,
)
from pacbayes.certified.splitting import Split
from pacbayes.certified.votes import vote_of
from pacbayes.files import DamagedFileError
from pacbayes.verify.classifiers import check_evidence

__all__ = ["issue_again"]

Array = NDArray[Any]
_VOTES = ("first-order", "tandem")


def issue_again(folder: Path, delta: float) -> HeldOutCertificate:
    """Issue all certificates at δ, to be chosen in advance; return that of the chosen predictor.

    Candidates, shares and the chosen predictor stay as they are: the certificates of all candidates
    hold at once, but another choice would be one that no part of δ has paid for.
    """
    check_probability(delta)
    record = read_record(folder)
    found = read_certificates(folder)
    if found is None:
        raise ValueError(
            f"{folder} has no certificate: it was withheld when the classifier was fitted, and "
            "cannot be issued later"
        )
    part, before = found
    check = check_evidence(folder)
    if not check.holds:
        raise DamagedFileError(f"{folder / EVIDENCE} is damaged: {check.detail}")
    if part not in before:
        raise DamagedFileError(f"{folder / CERTIFICATE} is damaged: it has no part {part!r}")
    evidence = read_evidence(folder, record)
    make = _votes if record.choose == "vote" else _certificates
    issued = {c.part: c for c in make(record, evidence, delta, before)}
    if record.costs is None:
        labels = np.array(record.classes)[evidence.labels]
        remark = above_constant(issued[part].bound, labels, evidence.groups)
        issued[part] = replace(issued[part], remarks=() if remark is None else (remark,))
    issue(folder, part, list(issued.values()))
    return issued[part]


def _bound_set(record: ClassifierRecord, e: Evidence, ledger: Any) -> tuple[BoundSet, Array]:
    """Return the bound set, and the names of the classes with None for no class."""
    names = np.array([*record.classes, None], object)
    own = np.setdiff1d(np.arange(record.n) if e.kept is None else e.kept, e.rows)
    groups = None if e.groups is None else e.groups[e.rows]
    loss = Loss(names[:-1], record.costs)
    split = Split(own, e.rows, record.seed)
    unit = "examples" if groups is None else "groups"
    assumed = SplitAssumptions(unit, record.seed, record.repeats, record.deduplicated)
    y, several = names[e.labels[e.rows]], len(record.claims) > 1
    return BoundSet(y, groups, loss, ledger, split, assumed, several), names


def _certificates(
    record: ClassifierRecord, e: Evidence, delta: float, before: dict[str, HeldOutCertificate]
) -> list[HeldOutCertificate]:
    ledger = share_out(delta, list(e.shares), list(e.shares.values()), e.claims)
    there, names = _bound_set(record, e, ledger)
    found = [there.overall(name, names[index]) for name, index in e.predictions.items()]
    best, predicted = record.chosen, names[e.predictions[record.chosen]]
    for claim in e.claims:
        if claim == ANSWERED and e.answers is not None:
            found.append(there.answered(best, predicted, e.answers))
        elif claim == UNANSWERED and e.answers is not None:
            found.append(there.unanswered(best, e.answers))
        elif claim != OVERALL:
            found.append(there.on_class(best, predicted, claim.removeprefix("class ")))
    return found


def _votes(
    record: ClassifierRecord, e: Evidence, delta: float, before: dict[str, HeldOutCertificate]
) -> list[HeldOutCertificate]:
    ledger = share_out(delta, _VOTES, (0.5, 0.5), [OVERALL])
    there, names = _bound_set(record, e, ledger)
    wrong = np.array([names[index] != there.y for index in e.predictions.values()])
    found = []
    for theorem in _VOTES:
        prior = list(e.shares.values())
        vote = vote_of(wrong, there.groups, prior, ledger[theorem], theorem)(np.asarray(e.weights))
        again = replace(before[theorem], remarks=(), delta=delta, ledger=dict(ledger.parts))
        found.append(replace(again, bound=vote.bound, kl=vote.kl))
    return found
