"""Choose a weighted vote of candidates by its bound."""

from __future__ import annotations

import numpy as np

from pacbayes.certified.candidates import answer, shares
from pacbayes.certified.claims import OVERALL, VOTES, BoundSet, share_out
from pacbayes.certified.contest import Chosen, Contest, fit_candidates
from pacbayes.certified.predictor import labels_of
from pacbayes.certified.votes import WeightedVote, best_vote

__all__ = ["choose_vote"]


def choose_vote(contest: Contest) -> Chosen:
    """Certify the weighted vote with the smallest bound, by either theorem at δ/2."""
    for name in ("per_class", "costs", "target_error"):
        if contest.settings[name] not in (None, False):
            raise ValueError(f"choose='vote' certifies the error alone; leave {name} out")
    fitted = fit_candidates(contest, contest.candidates)
    X, y, groups = contest.part(contest.split.bound)
    predicted = {name: labels_of(answer(m, X), len(y)) for name, m in fitted.items()}
    wrong = np.array([labels != y for labels in predicted.values()])
    prior = shares(list(fitted), contest.settings["shares"])
    ledger = share_out(contest.settings["delta"], VOTES, (0.5, 0.5), [OVERALL])
    best = min((best_vote(wrong, groups, prior, ledger[t], t) for t in VOTES),
               key=lambda vote: vote.bound)  # fmt: skip
    model = WeightedVote(list(fitted.values()), best.weights, contest.classes)
    there = BoundSet(y, groups, contest.loss, ledger, contest.split, contest.assumed)
    issued = there.votes(wrong, prior, best.weights, model.of(list(predicted.values())))
    return Chosen(
        name="vote",
        estimator=model,
        fitted=fitted,
        certificate=issued[best.theorem],
        certificates=issued,
        predicted=predicted,
        shares=dict(zip(fitted, prior, strict=True)),
        claims=(OVERALL,),
        weights=dict(zip(fitted, best.weights.tolist(), strict=True)),
    )
