"""Fit candidates to one part of the examples, and choose and certify one on the other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import CertificateWarning, remarked
from pacbayes.data.foreign import ask, give
from pacbayes.data.layout import Layout
from pacbayes.data.preprocessing import refuse_fitted_state
from pacbayes.data.splitting import Split
from pacbayes.data.values import features_sha256
from pacbayes.losses.bounded import Loss, likeliest, of_units
from pacbayes.models.candidates import (
    MEAN,
    WeightedVote,
    answer,
    best_vote,
    mean_of,
    probabilities,
    ranked,
    shares,
)
from pacbayes.models.claims import (
    ANSWERED,
    OVERALL,
    UNANSWERED,
    VOTES,
    BoundSet,
    Counted,
    class_claim,
    places,
    share_out,
)
from pacbayes.models.predictor import labels_of

__all__ = [
    "Choice",
    "Chosen",
    "Contest",
    "choose",
    "evidence_of",
    "fit_candidates",
    "threshold_for",
]

Array = NDArray[Any]
Choice = Literal["bound", "cross-validation", "vote"]
_FOLDS = 5


@dataclass(frozen=True)
class Contest:
    """Examples, their split, and the candidates.

    Attributes:
        candidates: not yet fitted, by name.
        settings: parameters of the classifier.
        weights: of candidates in their mean, by name; 1 where there is none.
        quiet: warnings of candidates that are of no interest, such as their own certificates.
    """

    X: Any
    y: Array
    groups: Array | None
    classes: Array
    split: Split
    candidates: dict[str, Any]
    loss: Loss
    settings: Mapping[str, Any]
    weights: Mapping[str, float] = field(default_factory=dict)
    quiet: tuple[type[Warning], ...] = (CertificateWarning,)

    @property
    def assumed(self) -> Assumptions:
        """What certificates take on trust."""
        return Assumptions(
            repeats=self.settings["repeats"],
            deduplicated=self.settings["deduplicate"],
            split_seed=self.split.seed,
            group=None if self.groups is None else "",
            covers="candidates",
        )

    def part(self, indices: Array) -> tuple[Any, Array, Array | None]:
        """Return examples, labels and groups at these indices."""
        groups = None if self.groups is None else self.groups[indices]
        return _safe_indexing(self.X, indices), self.y[indices], groups


@dataclass(frozen=True)
class Chosen:
    """The chosen classifier, fitted, with its certificates.

    Attributes:
        predicted: what every candidate answers on the bound set, by name.
        shares, claims: how δ was shared among candidates and their claims.
        answers: which examples of the bound set are answered, if some may not be.
    """

    name: str
    estimator: Any
    fitted: dict[str, Any]
    certificate: Certificate
    certificates: dict[str, Certificate]
    predicted: dict[str, Array]
    shares: dict[str, float]
    claims: tuple[str, ...]
    weights: dict[str, float] = field(default_factory=dict)
    of_classes: dict[Any, Certificate] = field(default_factory=dict)
    threshold: float = 0.0
    answers: Array | None = None
    answered: Certificate | None = None
    unanswered: Certificate | None = None


def fit_candidates(contest: Contest, candidates: Mapping[str, Any]) -> dict[str, Any]:
    """Fit clones of the candidates, each to a copy of the examples outside the bound set."""
    X, y, _ = contest.part(contest.split.own)
    for name, candidate in candidates.items():
        refuse_fitted_state(candidate, name)
    jobs = [
        delayed(_fit)(clone(candidate), X, y, contest.quiet) for candidate in candidates.values()
    ]
    return dict(zip(candidates, Parallel(contest.settings["n_jobs"])(jobs), strict=True))


def _fit(model: Any, X: Any, y: Array, quiet: tuple[type[Warning], ...]) -> Any:
    with warnings.catch_warnings():
        for category in quiet:
            warnings.simplefilter("ignore", category)
        return give(model.fit, X, y)


def choose(contest: Contest) -> Chosen:
    """Fit the candidates, choose one of them or a vote, and certify it."""
    how = contest.settings["choose"]
    if how not in get_args(Choice):
        raise ValueError(f"choose must be one of {', '.join(get_args(Choice))}, got {how!r}")
    if len(np.unique(contest.y[contest.split.own])) < 2:
        raise ValueError("the examples outside the bound set are all of one class; need more data")
    if contest.loss.labels > 1 and contest.settings["target_error"] is not None:
        raise ValueError("target_error is about the error of one label; leave loss out")
    if how == "vote":
        return _remarked(contest, _vote(contest))
    candidates = contest.candidates
    if how == "cross-validation" and len(candidates) > 1:
        best = min(candidates, key=lambda name: _cross_validated_loss(contest, name))
        candidates = {best: candidates[best]}
    fitted = fit_candidates(contest, candidates)
    if contest.settings["average"] and len(fitted) > 1:
        fitted |= _mean(contest, fitted)
    return _remarked(contest, _best(contest, fitted))


def _remarked(contest: Contest, chosen: Chosen) -> Chosen:
    """Add a remark to a certificate that is above the error of a constant answer."""
    plain = chosen.certificate
    loud = remarked(plain, contest.y, contest.groups)
    issued = {name: loud if c is plain else c for name, c in chosen.certificates.items()}
    return replace(chosen, certificate=loud, certificates=issued)


def _mean(contest: Contest, fitted: Mapping[str, Any]) -> dict[str, Any]:
    if not all(hasattr(model, "predict_proba") for model in fitted.values()):
        return {}
    return {MEAN: mean_of(fitted, contest.classes, contest.weights)}


def _best(contest: Contest, fitted: dict[str, Any]) -> Chosen:
    """Certify every candidate with its share of δ, and choose the one with the smallest bound."""
    X, y, groups = contest.part(contest.split.bound)
    names, given = list(fitted), contest.settings["shares"]
    given = None if contest.settings["choose"] == "cross-validation" else given
    parts, claims = shares(names, given), _claims(contest)
    ledger = share_out(contest.settings["delta"], names, parts, claims)
    several = len(claims) > 1
    there = BoundSet(y, groups, contest.loss, ledger, contest.split, contest.assumed, several)
    predicted = {name: _answers(contest, name, model, X) for name, model in fitted.items()}
    issued = {name: there.overall(name, labels) for name, labels in predicted.items()}
    best = min(names, key=lambda name: issued[name].bound)
    spent = dict(zip(names, parts, strict=True))
    chosen = Chosen(
        name=best,
        estimator=fitted[best],
        fitted=fitted,
        certificate=issued[best],
        certificates=issued,
        predicted=predicted,
        shares=spent,
        claims=tuple(claims),
    )
    if contest.settings["per_class"]:
        classes = {c: there.on_class(best, predicted[best], c) for c in contest.classes}
        chosen = replace(chosen, of_classes=classes)
    if contest.settings["target_error"] is not None:
        chosen = _abstaining(contest, chosen, there, predicted[best], X)
    return chosen


def _vote(contest: Contest) -> Chosen:
    """Certify the weighted vote with the smallest bound, by either theorem at δ/2."""
    for name in ("per_class", "costs", "target_error", "loss"):
        if contest.settings[name] not in (None, False, "error"):
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


def _answers(contest: Contest, name: str, model: Any, X: Any) -> Array:
    """Return a candidate's answers, with as many labels as its loss looks at."""
    k = contest.loss.labels
    if k > 1 and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"candidate {name!r} has no predict_proba, by which its {k} likeliest labels are "
            "found; leave it out, or use loss='error'"
        )
    return labels_of(ranked(model, X, contest.classes, k), _num_samples(X), k)


def _claims(contest: Contest) -> list[str]:
    """Return the names of all claims about one candidate."""
    of_classes = [class_claim(c) for c in contest.classes] if contest.settings["per_class"] else []
    abstaining = [] if contest.settings["target_error"] is None else [ANSWERED, UNANSWERED]
    return [OVERALL, *of_classes, *abstaining]


def _abstaining(
    contest: Contest, chosen: Chosen, there: BoundSet, predicted: Array, X: Any
) -> Chosen:
    """Certify answered examples; the threshold is a function of the candidate's own examples."""
    members = [n for n in contest.candidates if chosen.name in (n, MEAN)]
    each = [_cross_validated(contest, n, "predict_proba") for n in members]
    p = np.average(each, axis=0, weights=[contest.weights.get(n, 1.0) for n in members])
    own = np.unique(contest.y[contest.split.own])
    wrong = own[p.argmax(axis=1)] != contest.y[contest.split.own]
    threshold = threshold_for(p.max(axis=1), wrong, contest.settings["target_error"])
    answers = probabilities(chosen.estimator, X, contest.classes).max(axis=1) >= threshold
    return replace(
        chosen,
        threshold=threshold,
        answers=answers,
        answered=there.answered(chosen.name, predicted, answers),
        unanswered=there.unanswered(chosen.name, answers),
    )


def threshold_for(confidence: Array, wrong: Array, target: float) -> float:
    """Return the least confidence at which answering errs at most as often as `target`.

    Args:
        confidence: of cross-validated predictions, (n,).
        wrong: whether each of them is wrong, (n,).
        target: largest error among the answered examples. If no threshold attains it, none is
            answered: the threshold is infinite.
    """
    order = np.argsort(-confidence, kind="stable")
    level = confidence[order]
    error = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    last_of_level = np.append(level[1:] != level[:-1], True)  # ties are answered together
    possible = np.flatnonzero(last_of_level & (error <= target))
    return float(level[possible[-1]]) if len(possible) else float("inf")


def _cross_validated_loss(contest: Contest, name: str) -> float:
    _, y, groups = contest.part(contest.split.own)
    if (k := contest.loss.labels) > 1:
        p = _cross_validated(contest, name, "predict_proba")
        answers = likeliest(p, np.unique(y), k)
    else:
        answers = _cross_validated(contest, name, "predict")
    losses = contest.loss(answers, y)
    return float(of_units(losses, groups).mean())


def _cross_validated(contest: Contest, name: str, method: str) -> Array:
    """Return cross-validated predictions for the examples outside the bound set."""
    X, y, groups = contest.part(contest.split.own)
    folds = StratifiedKFold(_FOLDS) if groups is None else GroupKFold(_FOLDS)
    model, jobs = clone(contest.candidates[name]), contest.settings["n_jobs"]
    with warnings.catch_warnings():
        for category in contest.quiet:
            warnings.simplefilter("ignore", category)
        predictions: Array = ask(
            partial(cross_val_predict, model, cv=folds, method=method, n_jobs=jobs),
            X,
            y,
            groups=groups,
        )
    return predictions


def evidence_of(chosen: Chosen, contest: Contest) -> Counted:
    """Return the evidence of a choice among candidates."""
    groups = None if contest.groups is None else np.unique(contest.groups, return_inverse=True)[1]
    weights = list(chosen.weights.values())
    return Counted(
        seed=contest.split.seed,
        fraction=contest.settings["bound_fraction"],
        rows=contest.split.bound,
        labels=places(contest.y, contest.classes),
        groups=groups,
        predictions={name: places(p, contest.classes) for name, p in chosen.predicted.items()},
        shares=chosen.shares,
        claims=chosen.claims,
        answers=chosen.answers,
        weights=np.array(weights) if weights else None,
        kept=np.union1d(contest.split.own, contest.split.bound)
        if contest.settings["deduplicate"]
        else None,
        mean=dict(contest.weights),
        x_sha256=features_sha256(contest.X),
        layout=Layout.of(contest.X),
    )
