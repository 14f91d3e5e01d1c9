"""A certificate: a number that is at least the true risk with probability 1 − δ, and its proof."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from torch import Tensor

from pacbayes.bounds import catoni, catoni_lambda, kl_chernoff, mcallester, small_kl
from pacbayes.bounds.domain import check_probability
from pacbayes.choices import BoundName
from pacbayes.gaussian import kl_by_part
from pacbayes.network import Network
from pacbayes.risk import empirical_risk, exact_risk

__all__ = ["PREDICTOR", "Certificate", "certify"]

PREDICTOR = "randomised classifier: fresh weights drawn from Q for every prediction"
_BOUNDS = {"small-kl": small_kl, "catoni": catoni, "mcallester": mcallester}
# Far above what float64 roundings of a forward pass and of sums can amount to, far below a digit
# that is ever printed.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Certificate:
    """With probability 1 − δ over the sample and the draws, the predictor errs at most so often.

    Attributes:
        predictor: which predictor is covered.
        bound: upper bound of its misclassification probability.
        bound_name: the theorem that gave it.
        delta, ledger: total failure probability, and the parts it was spent on.
        risk: mean sampled loss on the bound set.
        risk_upper: upper confidence value of the empirical risk E_Q R_S.
        samples, draws: T for each example, and independent draws in all (0 and None: exact).
        n: examples in the bound set.
        kl, kl_by_part: KL(Q|P), in total and for every Gaussian.
        catoni, catoni_lambda: the paper's bound in the paper's way, at the full δ and without a
            Monte-Carlo term; for comparison only.
        provenance: hashes, seeds and versions.
    """

    predictor: str
    bound: float
    bound_name: BoundName
    delta: float
    ledger: dict[str, float]
    risk: float
    risk_upper: float
    samples: int
    draws: float | None
    n: int
    kl: float
    kl_by_part: dict[str, float]
    catoni: float
    catoni_lambda: float
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sum(map(Fraction, self.ledger.values())) > Fraction(self.delta):
            raise ValueError(f"the ledger {self.ledger} spends more than delta = {self.delta}")

    @property
    def vacuous(self) -> bool:
        return self.bound >= 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def certify(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    delta: float = 0.05,
    bound: BoundName = "small-kl",
    samples: int | None = 100,
    provenance: Mapping[str, Any] | None = None,
) -> Certificate:
    """Certify the randomised classifier on its bound set.

    The risk is sampled in float64 with fresh draws and raised to its upper confidence value, then
    put through the bound; δ is halved between the two (all of it goes to the bound where nothing
    is sampled). Every rounding is upwards.

    Args:
        x, y: the bound set, every example once: (n, d) and labels −1/+1.
        bound: the theorem, to be chosen before its value is seen.
        samples: T, draws for each example; more make the Monte-Carlo term smaller. None sums
            a small all-sign network exactly, which needs no such term.
    """
    check_probability(delta)
    if bound not in _BOUNDS:
        raise ValueError(f"bound must be one of {', '.join(_BOUNDS)}, got {bound!r}")
    network.refuse_changed_state()
    exact = copy.deepcopy(network).double().eval()
    parts = kl_by_part(exact)
    kl = math.fsum(parts.values()) * (1 + _ROUNDING)
    data = x.double(), y.double()
    risk = exact_risk(exact, *data) if samples is None else empirical_risk(exact, *data, samples)
    mean = min(1.0, risk.mean + _ROUNDING)
    if risk.draws is None:
        ledger, risk_upper = {"pac-bayes": delta}, mean
    else:
        ledger = {"pac-bayes": delta / 2, "monte-carlo": delta / 2}
        risk_upper = kl_chernoff(mean, risk.draws, ledger["monte-carlo"])
    lam = catoni_lambda(risk.mean, kl, risk.n, delta)
    return Certificate(
        predictor=PREDICTOR,
        bound=_BOUNDS[bound](risk_upper, kl, risk.n, ledger["pac-bayes"]),
        bound_name=bound,
        delta=delta,
        ledger=ledger,
        risk=risk.mean,
        risk_upper=risk_upper,
        samples=risk.samples,
        draws=risk.draws,
        n=risk.n,
        kl=kl,
        kl_by_part=parts,
        catoni=catoni(risk.mean, kl, risk.n, delta, lam=lam),
        catoni_lambda=lam,
        provenance=dict(provenance or {}),
    )
