"""Issue the certificates of a saved classifier again, from its recorded predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.bounds.domain import check_probability
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import remarked
from pacbayes.data.splitting import Split
from pacbayes.files import DamagedFileError
from pacbayes.losses.bounded import loss_of
from pacbayes.models.candidates import WeightedVote
from pacbayes.models.claims import (
    ANSWERED,
    OVERALL,
    UNANSWERED,
    VOTES,
    BoundSet,
    Evidence,
    share_out,
)
from pacbayes.models.saved.folder import issue, read_evidence
from pacbayes.models.saved.record import (
    CERTIFICATE,
    EVIDENCE,
    ClassifierRecord,
    read_certificates,
    read_record,
)
from pacbayes.verify.classifiers import check_evidence

__all__ = ["issue_again"]

Array = NDArray[Any]


def issue_again(folder: Path, delta: float) -> Certificate:
    """Issue all certificates at δ, to be chosen in advance; return that of the chosen predictor.

    Candidates, shares and the chosen predictor stay as they are: the certificates of all candidates
    hold at once, but another choice would be one that no part of δ has paid for.
    """
    check_probability(delta)
    record = read_record(folder)
    if not (folder / CERTIFICATE).exists():
        raise ValueError(
            f"{folder} has no certificate: it was withheld when the classifier was fitted, and "
            "cannot be issued later"
        )
    check = check_evidence(folder)
    if not check.holds:
        raise DamagedFileError(f"{folder / EVIDENCE} is damaged: {check.detail}")
    evidence = read_evidence(folder, record)
    part, _ = read_certificates(folder, record, evidence) or ("", {})
    make = _votes if record.choose == "vote" else _certificates
    issued = {c.part: c for c in make(record, evidence, delta)}
    if part not in issued:
        raise DamagedFileError(f"{folder / CERTIFICATE} is damaged: it has no part {part!r}")
    labels = np.array(record.classes)[evidence.labels]
    issued[part] = remarked(issued[part], labels, evidence.groups)
    issue(folder, part, list(issued.values()))
    return issued[part]


def _bound_set(record: ClassifierRecord, e: Evidence, ledger: Any) -> tuple[BoundSet, Array]:
    """Return the bound set, and the names of the classes with None for no class."""
    names = np.array([*record.classes, None], object)
    own = np.setdiff1d(np.arange(record.n) if e.kept is None else e.kept, e.rows)
    groups = None if e.groups is None else e.groups[e.rows]
    loss = loss_of(names[:-1], record.costs)
    split = Split(own, e.rows, record.seed)
    y, several = names[e.labels[e.rows]], len(record.claims) > 1
    return BoundSet(y, groups, loss, ledger, split, record.assumptions, several), names


def _certificates(record: ClassifierRecord, e: Evidence, delta: float) -> list[Certificate]:
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


def _votes(record: ClassifierRecord, e: Evidence, delta: float) -> list[Certificate]:
    ledger = share_out(delta, VOTES, (0.5, 0.5), [OVERALL])
    there, names = _bound_set(record, e, ledger)
    predicted = [names[index] for index in e.predictions.values()]
    wrong, weights = np.array([labels != there.y for labels in predicted]), np.asarray(e.weights)
    labels = WeightedVote([], weights, names[:-1]).of(predicted)
    return list(there.votes(wrong, list(e.shares.values()), weights, labels).values())
