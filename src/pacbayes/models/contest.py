"""Candidates that are fitted to one part of the examples, and the one that is chosen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import CertificateWarning
from pacbayes.data.foreign import give
from pacbayes.data.preprocessing import refuse_fitted_state
from pacbayes.losses.bounded import Loss
from pacbayes.models.splitting import Split

__all__ = ["Chosen", "Contest", "fit_candidates"]

Array = NDArray[Any]


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
