"""Catoni's bound in the paper's form. It holds for all λ at once, so λ may be optimised."""

from __future__ import annotations

import math
from collections.abc import Callable

from pacbayes.bounds.domain import check, upward

__all__ = ["ALPHA", "catoni", "catoni_lambda", "minimiser"]

_GOLDEN = 0.5 * (3 - math.sqrt(5))
_ROOT_EPSILON = math.sqrt(2.2e-16)
_MOST_CALLS = 500


def minimiser(f: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return where f is smallest between two points.

    Steps go to the minimum of a parabola through the three best points, or else divide the larger
    part by the golden section. They are scipy's (`minimize_scalar`, method "bounded"), bit by bit.

    Reference: Brent 1973, chapter 5.
    """
    best = second = third = low + _GOLDEN * (high - low)
    at_best = at_second = at_third = f(best)
    step = before = 0.0  # the last step, and the one before it
    for _ in range(_MOST_CALLS - 1):
        middle, least = 0.5 * (low + high), _ROOT_EPSILON * abs(best) + tolerance / 3
        if not abs(best - middle) > 2 * least - 0.5 * (high - low):
            break
        jump = None
        if abs(before) > least:
            r = (best - second) * (at_best - at_third)
            q = (best - third) * (at_best - at_second)
            p, q = (best - third) * q - (best - second) * r, 2 * (q - r)
            p, q = -p if q > 0 else p, abs(q)
            wide = abs(0.5 * q * before)
            before = step
            if abs(p) < wide and q * (low - best) < p < q * (high - best):
                jump = p / q
                if best + jump - low < 2 * least or high - (best + jump) < 2 * least:
                    jump = least if middle >= best else -least
        if jump is None:
            before = low - best if best >= middle else high - best
            jump = _GOLDEN * before
        step = jump
        x = best + (1 if step >= 0 else -1) * max(abs(step), least)
        at_x = f(x)
        if at_x <= at_best:
            low, high = (best, high) if x >= best else (low, best)
            third, at_third, second, at_second = second, at_second, best, at_best
            best, at_best = x, at_x
            continue
        low, high = (x, high) if x < best else (low, x)
        if at_x <= at_second or second == best:
            third, at_third, second, at_second = second, at_second, x, at_x
        elif at_x <= at_third or third in (best, second):
            third, at_third = x, at_x
    return best


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
