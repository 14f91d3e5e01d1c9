"""A weighted majority vote of finitely many candidates, with weights that minimise its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import rel_entr, softmax

from pacbayes import bounds
from pacbayes.bounds.domain import upward
from pacbayes.losses.bounded import units_of
from pacbayes.models.candidates import OfMembers, answer

__all__ = ["Vote", "WeightedVote", "best_vote", "vote_of"]

Array = NDArray[Any]
_ROUNDING = 2.0**-40  # above the relative rounding error of sums over candidates and examples


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
