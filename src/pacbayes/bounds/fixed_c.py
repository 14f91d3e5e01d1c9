"""Catoni's bound at values of C fixed in advance, which costs ln(1/δ) instead of ln(2√n/δ).

Let Φ_C(p) = −ln(1 − p(1 − e^{−C})). For a loss in [0, 1] and any hypothesis h, convexity of e^{−Cx}
gives E_S exp(n[Φ_C(R(h)) − C·R_S(h)]) ≤ 1. The same holds for a mixture over values C_1, …, C_k
chosen before the bound set is used: E_S E_{h∼P} exp f(R(h), R_S(h)) ≤ 1 with

    f(p, q) = ln (1/k) Σ_i exp(n[Φ_{C_i}(p) − C_i·q]).

Each Φ_C is convex and increasing. Hence so is f in p, and f is convex in (p, q) together, because
log-sum-exp is convex and increasing in each of its arguments. Two bounds follow, each with
probability 1 − δ and for every n ≥ 1:

- for all Q at once, f(E_Q R, E_Q R_S) ≤ E_Q f(R, R_S) ≤ KL(Q|P) + ln(1/δ), by Jensen's inequality,
  the Donsker–Varadhan formula and Markov's inequality;
- for one draw h ∼ Q, f(R(h), R_S(h)) ≤ ln(dQ/dP)(h) + ln(1/δ), by Markov's inequality for
  (dP/dQ)(h)·e^f, whose expectation over the sample and h ∼ Q is at most 1.

The bound is the largest p that the inequality allows. It is at most what a union bound gives, the
smallest of k bounds at δ/k each: a sum is at least each of its terms. Neighbouring values of C have
similar terms, so several of them cost little more than the best one alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from pacbayes.bounds.domain import check, upward

__all__ = ["catoni_fixed", "disintegrated_fixed", "fixed_c_grid"]

_LARGEST = 3.0  # the best C without any errors is a little less
_PRICE = 3.0  # ln(1/δ) at δ = 0.05, for which C is chosen; the bound holds for all δ
_SMALL = 1e-3  # of the total that the bound pays for: below, e^total − 1 is compared
_LEAST_ERRORS = 0.25  # a guess of no errors is taken as a quarter of one, else C would be infinite


def catoni_fixed(
    risk: float,
    kl: float,
    n: int,
    delta: float,
    *,
    C: float | Sequence[float] | None = None,
    guess: float | None = None,
) -> float:
    """Catoni's bound at a C fixed before the bound set is used, or at a mixture of several.

    With probability 1 − δ, for all Q at once,

        E_Q R ≤ [1 − exp(−C·E_Q R_S − (KL(Q|P) + ln(1/δ)) / n)] / (1 − e^{−C}),

    and for k values of C the solution p of

        (1/k) Σ_i exp(n[−ln(1 − p(1 − e^{−C_i})) − C_i·E_Q R_S]) = e^{KL(Q|P)} / δ.

    The head of this module has the proof.

    Reference: Catoni 2007, Theorem 1.2.1; Germain et al. 2009 before their supremum over C.

    Args:
        C: one value or several of equal weight, which must not depend on the bound set. By default
            those of `fixed_c_grid`.
        guess: the risk expected on the bound set, guessed without using it, for that grid.
    """
    check(risk, kl, n, delta)
    return _solve(risk, kl - math.log(delta), n, _values(C, guess, n))


def disintegrated_fixed(
    risk: float,
    log_ratio: float,
    n: int,
    delta: float,
    *,
    C: float | Sequence[float] | None = None,
    guess: float | None = None,
    networks: int = 1,
) -> float:
    """Catoni's bound at a fixed C, or a mixture of several, for one network drawn from Q.

    With probability 1 − δ over the sample and the draw h ~ Q, the bounds of `catoni_fixed` hold
    with R(h), R_S(h) and ln(dQ/dP)(h) in place of E_Q R, E_Q R_S and KL(Q|P). A negative sum
    ln(dQ/dP)(h) + ln(1/δ) counts as 0. That only raises the bound, and keeps it at R_S(h) or above.

    Reference: Rivasplata et al. 2020, Theorem 1 (i), with Catoni's exponential moment.

    Args:
        risk: R_S(h), the empirical risk of the drawn network.
        log_ratio: ln(dQ/dP)(h) at the drawn weights. May be negative.
        C, guess: as for `catoni_fixed`.
        networks: number N of networks drawn. Each is charged δ/N, so the bound holds for all.
    """
    if not math.isfinite(log_ratio):
        raise ValueError(f"log_ratio must be finite, got {log_ratio}")
    if not (networks >= 1 and networks == int(networks)):
        raise ValueError(f"networks must be a whole number of at least 1, got {networks}")
    check(risk, 0.0, n, delta)
    terms = (log_ratio, math.log(networks), -math.log(delta))
    total = sum(terms)
    slack = 1e-12 if total > _SMALL else 8 * sys.float_info.epsilon * sum(map(abs, terms))
    return _solve(risk, max(0.0, total + slack), n, _values(C, guess, n))


def fixed_c_grid(n: int, guess: float | None = None) -> tuple[float, ...]:
    r"""Return values of C for a bound set of n examples, with a guess of the risk or without one.

    The values 3, 3/2, 3/4, … down to 5/√n serve every risk: at risk r the bound is smallest near
    C = ln(1 + s + s²/2) with s² = 2 ln(1/δ)/(n·r(1 − r)), between 5/√n at r = ½ and about 3 at
    r = 0. A guess adds its C as often as there are other values, so that it has half of the weight.
    It counts as a quarter of an error on n examples if it is less. All values have three digits, so
    every machine finds the same.

    Args:
        guess: the expected risk, such as that of the prior on its own part of the data. It must not
            depend on the bound set.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    count = 1 + max(0, math.ceil(math.log2(0.6 * math.sqrt(n))))
    values = tuple(float(f"{_LARGEST / 2**i:.3g}") for i in range(count))
    return values if guess is None else (*values, *[_best_c(guess, n)] * count)


def _best_c(guess: float, n: int) -> float:
    """Return nearly the best C for a risk: ln(1 + s + s²/2), see `fixed_c_grid`."""
    if not 0 <= guess <= 1:
        raise ValueError(f"the guess of the risk must be in [0, 1], got {guess}")
    r = min(max(guess, _LEAST_ERRORS / n), 1 - _LEAST_ERRORS / n)
    half = _PRICE / (n * r * (1 - r))  # s²/2
    return float(f"{math.log1p(math.sqrt(2 * half) + half):.3g}")


def _values(C: float | Sequence[float] | None, guess: float | None, n: int) -> tuple[float, ...]:
    """Return the values of C: those given, or the grid."""
    if C is None:
        return fixed_c_grid(n, guess)
    if guess is not None:
        raise ValueError("give C or a guess of the risk, not both")
    values = tuple(C) if isinstance(C, Sequence) else (C,)
    if not values or not all(0 < value < math.inf for value in values):
        raise ValueError(f"C must be positive and finite, got {C}")
    return values


def _solve(risk: float, total: float, n: int, values: tuple[float, ...]) -> float:
    """Return the p with f(p, risk) = total, rounded up.

    The search keeps f(high, risk) ≥ total, proved with a bound on the rounding errors, and ends
    where no number lies between `low` and `high`. It starts at the union bound.
    """
    price = upward((total + math.log(len(values))) / n)
    high = min(_closed_form(risk, price, C) for C in values)
    if len(values) == 1:
        return high
    low = risk
    while low < (middle := low + 0.5 * (high - low)) < high:
        if (
            _reached_small(middle, risk, total, n, values)
            if total < _SMALL
            else _reached(middle, risk, price, n, values)
        ):
            high = middle
        else:
            low = middle
    return high


def _closed_form(risk: float, price: float, C: float) -> float:
    return min(1.0, upward(math.expm1(-(C * risk + price)) / math.expm1(-C)))


def _reached(p: float, risk: float, price: float, n: int, values: tuple[float, ...]) -> bool:
    """Return whether Σ_i exp(n[Φ_{C_i}(p) − C_i·risk − price]) ≥ 1, beyond rounding errors."""
    epsilon = sys.float_info.epsilon
    logs = []
    for C in values:
        x = p * math.expm1(-C)
        # log1p turns an error ε·x of its argument into ε·|x|/(1 + x), which is at least ε·Φ.
        error = 8 * epsilon * (-2 * x / (1 + x) + C * risk + price)
        logs.append(n * (-math.log1p(x) - C * risk - price - error))
    if max(logs) >= 0:
        return True
    # Below 0, an error ε·|y| of the exponent changes e^y by less than ε.
    return math.fsum(map(math.exp, logs)) >= 1 + 4 * epsilon * len(values)


def _reached_small(p: float, risk: float, total: float, n: int, values: tuple[float, ...]) -> bool:
    """Return whether Σ_i [exp(n[Φ_{C_i}(p) − C_i·risk]) − 1] ≥ k(e^total − 1), beyond rounding."""
    epsilon = sys.float_info.epsilon
    gains = []
    for C in values:
        x = p * math.expm1(-C)
        error = 8 * epsilon * (-2 * x / (1 + x) + C * risk)
        log = n * (-math.log1p(x) - C * risk - error)
        if log > 1 + math.log(len(values)):
            return True
        gains.append(math.expm1(log))
    slack = 4 * epsilon * math.fsum(map(abs, gains))
    return math.fsum(gains) - slack >= len(values) * math.expm1(total) * (1 + 4 * epsilon)
