"""Candidates among which a classifier may choose, their means and votes, and their shares of δ."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import rel_entr, softmax
from sklearn.base import is_clusterer, is_regressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from pacbayes import bounds
from pacbayes.bounds.domain import upward
from pacbayes.data.foreign import ask
from pacbayes.data.preprocessing import TableEncoder
from pacbayes.defaults import linear_weight
from pacbayes.losses.bounded import likeliest, units_of

__all__ = [
    "MEAN",
    "MeanOfProbabilities",
    "OfMembers",
    "Vote",
    "WeightedVote",
    "answer",
    "best_vote",
    "default_candidates",
    "mean_of",
    "mean_weights",
    "named",
    "probabilities",
    "ranked",
    "shares",
    "vote_of",
]

Array = NDArray[Any]
Weights = Mapping[str, float] | Sequence[float]
MEAN = "mean"
_LINEAR = "logistic regression"
_FOR_MEAN = 0.9
_ROUND_DOWN = 1 - 2.0**-50  # shares that add up to 1 must not add up to more in floating point
_ROUNDING = 2.0**-40  # above the relative rounding error of sums over candidates and examples


def default_candidates(seed: int) -> dict[str, Any]:
    """Return gradient boosting, two forests, logistic regression and a neural network."""
    return {
        "gradient boosting": _trees(HistGradientBoostingClassifier(random_state=seed)),
        "random forest": _trees(RandomForestClassifier(random_state=seed)),
        "extra trees": _trees(ExtraTreesClassifier(random_state=seed)),
        _LINEAR: _scaled(LogisticRegression(max_iter=1000)),
        "neural network": _scaled(MLPClassifier(random_state=seed)),
    }


def mean_weights(n: int) -> dict[str, float]:
    """Return weights other than 1 in the mean of the default candidates.

    A linear model helps where there are few examples and falls behind where there are many.
    """
    return {_LINEAR: linear_weight(n)}


def _trees(model: Any) -> Pipeline:
    return make_pipeline(TableEncoder(), model)


def _scaled(model: Any) -> Pipeline:
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    return make_pipeline(TableEncoder(), filled, StandardScaler(), model)


def named(estimator: Any, candidates: Any, seed: int) -> dict[str, Any]:
    """Return the candidates by name: those given, or the default ones."""
    if estimator is not None and candidates is not None:
        raise ValueError("give either estimator or candidates, not both")
    if estimator is not None:
        return _classifiers({type(estimator).__name__: estimator})
    if candidates is None:
        return default_candidates(seed)
    if not isinstance(candidates, Mapping | Sequence) or not len(candidates):
        raise ValueError(f"candidates must be a list or dict of estimators, got {candidates!r}")
    found = dict(candidates) if isinstance(candidates, Mapping) else _numbered(candidates)
    if MEAN in found:
        raise ValueError(f"{MEAN!r} is the name of the candidates' mean; choose another name")
    return _classifiers(found)


def _classifiers(found: dict[str, Any]) -> dict[str, Any]:
    """Return the candidates; refuse what cannot predict labels."""
    for model in found.values():
        whole = all(hasattr(model, name) for name in ("fit", "predict", "get_params"))
        if isinstance(model, type) or not whole or is_regressor(model) or is_clusterer(model):
            raise ValueError(
                "a candidate must be a scikit-learn classifier or a pipeline that ends in one, "
                f"such as RandomForestClassifier(), got {reprlib.repr(model)}"
            )
    return found


def _numbered(estimators: Sequence[Any]) -> dict[str, Any]:
    return {f"{i} {type(e).__name__}": e for i, e in enumerate(estimators, 1)}


def shares(names: Sequence[str], given: Weights | None) -> list[float]:
    """Return the share of δ that each candidate may spend; they add up to at most 1.

    By default 90 % goes to the mean of all candidates, which is most often the best, and the others
    share the rest equally; without a mean, all have equal shares.

    Args:
        given: positive weights, by name or in order, which are scaled to add up to 1.
    """
    if given is None:
        others = (1 - _FOR_MEAN) / (len(names) - 1) if MEAN in names else 1.0
        weights = [_FOR_MEAN if name == MEAN else others for name in names]
    else:
        weights = _in_order(names, given)
    if not all(np.isfinite(w) and w > 0 for w in weights):
        raise ValueError(f"shares must be positive numbers, got {weights}")
    total = fsum(weights)
    return [w / total * (_ROUND_DOWN if len(names) > 1 else 1.0) for w in weights]


def _in_order(names: Sequence[str], given: Weights) -> list[float]:
    matches = set(given) == set(names) if isinstance(given, Mapping) else len(given) == len(names)
    if not matches:
        raise ValueError(f"shares must name each of {', '.join(names)} once, got {given!r}")
    values = [given[name] for name in names] if isinstance(given, Mapping) else given
    return [float(value) for value in values]


def mean_of(
    fitted: Mapping[str, Any], classes: Array, weights: Mapping[str, float]
) -> MeanOfProbabilities:
    """Return the mean of fitted classifiers; those without a stated weight have weight 1."""
    parts = [weights.get(name, 1.0) for name in fitted]
    return MeanOfProbabilities(list(fitted.values()), classes, parts)


class OfMembers:
    """A classifier that answers by the probabilities that it makes from its members' answers.

    It changes nothing that it is given, and asks each member on a copy.

    Args:
        members: fitted classifiers.
        classes: all labels, sorted.
    """

    def __init__(self, members: Sequence[Any], classes: Array) -> None:
        self.members = tuple(members)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> Array:
        """Return a probability for each class, (n, k)."""
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each example."""
        labels: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


class MeanOfProbabilities(OfMembers):
    """The classifier that answers by a weighted mean of its members' `predict_proba`.

    Args:
        weights: one for each member, fixed before the bound set is seen; equal by default.
    """

    def __init__(
        self, members: Sequence[Any], classes: Array, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__(members, classes)
        self.weights = None if weights is None else tuple(weights)

    def predict_proba(self, X: Any) -> Array:
        """Return the weighted mean of the probabilities."""
        each = [probabilities(member, X, self.classes_) for member in self.members]
        mean: Array = np.average(each, axis=0, weights=self.weights)
        return mean


def probabilities(model: Any, X: Any, classes: Array) -> Array:
    """Return `predict_proba` with a column for each class, (n, k); zeros for those never seen."""
    p = answer(model, X, "predict_proba")
    full = np.zeros((len(p), len(classes)))
    full[:, np.searchsorted(classes, model.classes_)] = p
    return full


def ranked(model: Any, X: Any, classes: Array, k: int) -> Array:
    """Return a classifier's answers of k labels: `predict`, (n,), or the likeliest, (n, k)."""
    return answer(model, X) if k == 1 else likeliest(probabilities(model, X, classes), classes, k)


def answer(model: Any, X: Any, method: str = "predict") -> Array:
    """Return a classifier's answers, for which it gets a copy of the examples to itself."""
    asked = getattr(model, method)
    found = asked(X) if isinstance(model, OfMembers) else ask(asked, X)
    return np.asarray(found)


@dataclass(frozen=True)
class Vote:
    """Weights of a vote and the bound at which they arrive.

    Attributes:
        weights: ρ, one for each candidate.
        bound: upper bound of the vote's error.
        theorem: first-order or tandem.
        risk: mean loss, or tandem loss, under ρ on the bound set.
        kl: KL(ρ|π) to the candidates' shares π.
    """

    weights: Array
    bound: float
    theorem: str
    risk: float
    kl: float


def best_vote(
    wrong: Array, groups: Array | None, prior: Sequence[float], delta: float, theorem: str
) -> Vote:
    """Minimise a bound of the vote over its weights; it holds for all weights at once.

    Args:
        wrong: whether each candidate errs on each example of the bound set, (m, n).
        groups: label of each example's group; each group counts as one unit.
        prior: π, the candidates' shares, which sum to at most 1.
        theorem: first-order or tandem.
    """
    vote, pi = vote_of(wrong, groups, prior, delta, theorem), np.asarray(prior)
    starts = [np.log(pi), *(np.log(pi) + 4.0 * np.eye(len(pi)))]
    found = [minimize(lambda z: vote(softmax(z)).bound, z, method="Nelder-Mead").x for z in starts]
    corners = [*np.eye(len(pi)), pi / pi.sum()]
    return min((vote(rho) for rho in [*map(softmax, found), *corners]), key=lambda v: v.bound)


def vote_of(
    wrong: Array, groups: Array | None, prior: Sequence[float], delta: float, theorem: str
) -> Callable[[Array], Vote]:
    """Return the function that bounds the vote with given weights.

    first-order bounds 2·P(a candidate drawn from ρ errs), and tandem bounds 4·P(two candidates
    drawn from ρ err together). For finitely many candidates both are exact sums.
    """
    errors, (weight, n) = np.asarray(wrong, np.float64), _weights(groups, np.shape(wrong)[1])
    together, alone = (errors * weight) @ errors.T, errors @ weight
    bound: Callable[[float, float, int, float], float]
    risk_of: Callable[[Array], float]
    if theorem == "tandem":
        bound, risk_of = bounds.tandem, lambda rho: float(rho @ together @ rho)
    else:
        bound, risk_of = bounds.first_order, lambda rho: float(rho @ alone)
    pi = np.asarray(prior)

    def vote(rho: Array) -> Vote:
        risk = min(1.0, risk_of(rho) * (1 + _ROUNDING))
        kl = max(0.0, float(rel_entr(rho, pi).sum()) * (1 + _ROUNDING) + 1e-12)
        return Vote(rho, bound(risk, upward(kl), n, delta), theorem, risk, kl)

    return vote


def _weights(groups: Array | None, count: int) -> tuple[Array, int]:
    """Return the weight of each example in the mean over units, and the number of units."""
    index, sizes = units_of(groups, count)
    return 1 / (len(sizes) * sizes[index]), len(sizes)


class WeightedVote(OfMembers):
    """The classifier that answers by a weighted majority of its members.

    The vote errs only if at least half of the weight errs.

    Args:
        weights: one for each member, summing to 1.
    """

    def __init__(self, members: Sequence[Any], weights: Array, classes: Array) -> None:
        super().__init__(members, classes)
        self.weights = weights

    def predict_proba(self, X: Any) -> Array:
        """Return the share of the weight that votes for each class, (n, k)."""
        return self.shares([answer(member, X) for member in self.members])

    def of(self, answers: Sequence[Array]) -> Array:
        """Return the class of each example that has the largest weight among the answers."""
        labels: Array = self.classes_[self.shares(answers).argmax(axis=1)]
        return labels

    def shares(self, answers: Sequence[Array]) -> Array:
        """Return the share of the weight of the members that gave each class as their answer."""
        votes = [labels[:, None] == self.classes_ for labels in answers]
        shares: Array = np.einsum("m,mnk->nk", self.weights, np.asarray(votes, np.float64))
        return shares
