"""Catoni's bound in the paper's form. It holds for all λ at once, so λ may be optimised."""

from __future__ import annotations

import math

from pacbayes.bounds.brent import minimiser
from pacbayes.bounds.domain import check, upward

__all__ = ["ALPHA", "catoni", "catoni_lambda"]

ALPHA = 1.001  # reproduces the paper's six bounds; must be fixed before seeing the data


def catoni(
    risk: float,
    kl: float,
    n: int,
    delta: float,
    *,
    lam: float | None = None,
    alpha: float = ALPHA,
) -> float:
    r"""Catoni's bound in the form of the paper's main theorem.

    With probability 1 − δ, for all Q and all λ > 1 at once, and for an α > 1 fixed in advance,

        E_Q R ≤ Φ⁻¹_{λ/n}[E_Q R_S + (α/λ)(KL(Q|P) − ln δ + 2 ln(ln(α²λ) / ln α))],
        Φ⁻¹_γ(t) = (1 − e^{−γt}) / (1 − e^{−γ}).

    Reference: Catoni 2007, Theorem 1.2.6.

    Args:
        lam: λ. Default: the minimiser of the bound, which the theorem allows.
    """
    _check(risk, kl, n, delta, alpha)
    if lam is None:
        lam = catoni_lambda(risk, kl, n, delta, alpha=alpha)
    if not (lam > 1 and math.isfinite(lam)):
        raise ValueError(f"lambda must be above 1 and finite, got {lam}")
    return min(1.0, upward(_bound(risk, kl, n, delta, lam, alpha)))


def catoni_lambda(risk: float, kl: float, n: int, delta: float, *, alpha: float = ALPHA) -> float:
    """Return the λ > 1 that minimises Catoni's bound. Any other λ > 1 is valid too.

    Search λ from 1 to 1000·n on a logarithmic scale: a coarse grid, then Brent's method around the
    best grid point.
    """
    _check(risk, kl, n, delta, alpha)

    def at(log_lambda: float) -> float:
        return _bound(risk, kl, n, delta, math.exp(log_lambda), alpha)

    top = math.log(1000 * n)
    step = top / 64
    best = min((step * i for i in range(1, 65)), key=at)
    bracket = (max(best - step, 1e-6), min(best + step, top))
    return math.exp(minimiser(at, *bracket, 1e-9))


def _check(risk: float, kl: float, n: int, delta: float, alpha: float) -> None:
    check(risk, kl, n, delta)
    if not (alpha > 1 and math.isfinite(alpha)):
        raise ValueError(f"alpha must be above 1 and finite, got {alpha}")


def _bound(risk: float, kl: float, n: int, delta: float, lam: float, alpha: float) -> float:
    gamma = lam / n
    complexity = kl - math.log(delta) + 2 * math.log(2 + math.log(lam) / math.log(alpha))
    t = risk + alpha / lam * complexity
    return math.expm1(-gamma * t) / math.expm1(-gamma)
