"""Checks of more than one number: plans, counts of errors, and the verifier's own theorems."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

from flint import arb, ctx

from inverses import exact
from inverses.draws import delta_of, errors_of, four, risk_of, size_of
from pacbayes import bounds
from pacbayes.bounds.planning import CAUTIOUS, Plan, Split
from pacbayes.bounds.theorems import THEOREMS
from pacbayes.verify.enclosures import THEOREMS as VERIFIED
from pacbayes.verify.enclosures import Terms

CLOSE = 1e-6  # of the excess over the risk
ULPS = 2.0**-45  # of the bound, where the excess is lost in the last digits


def plan(rng: Random) -> str | None:
    """The bounds expected at the typical and the cautious count, and the bound at the n needed."""
    error = rng.choice([0.0, rng.random() / 2, round(rng.random() / 2, 2)])
    fraction, delta = rng.choice([0.1, 0.25, 0.5, rng.uniform(0.05, 0.95)]), delta_of(rng)
    planned = Plan((Split(fraction, error),), kl=rng.choice([0.0, 1.0, 30.0]), delta=delta)
    n, wanted = size_of(rng, 400, 1e9), error + rng.uniform(0.02, 0.9) * (1 - error)
    for row in planned.expected(n):
        for cautious, found in enumerate((row.typical, row.cautious)):
            if not _holds(planned, row.method, error, row.bound_set, cautious, found):
                return f"{planned}.expected({n}): {row.method} {found!r} does not hold"
    for row in planned.needed(wanted):
        for cautious, size in enumerate((row.typical, row.cautious)):
            m = size and size - round((1 - fraction) * size)
            if m and not _holds(planned, row.method, error, m, cautious, wanted):
                return f"{planned}.needed({wanted!r}): {row.method} {size} is not enough"
    return None


def _quantile(n: int, p: float, least: int) -> int:
    """The smallest k ≥ least with P(Bin(n, p) ≤ k) ≥ 0.9, by bisection in Arb."""
    if p == 0 or exact.tail(least, n, p)[0] >= CAUTIOUS:
        return least
    low, high = least, min(n, least + 4 + 4 * math.ceil(math.sqrt(n * p * (1 - p))))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if exact.tail(middle, n, p)[0] >= CAUTIOUS else (middle, high)
    return high


def _holds(plan: Plan, method: str, error: float, m: int, cautious: int, p: float) -> bool:
    """Whether p is at least the bound at the typical or the cautious number of errors of m."""
    if p >= 1:
        return True
    k, half = math.ceil(m * error - 1e-9), plan.delta / 2
    k = _quantile(m, error, k) if cautious else k
    if method == "held-out":
        excess = exact.tail_excess(k, m, plan.delta)
    elif method == "small-kl":
        excess = exact.kl_excess(k / m, exact.complexity(arb(plan.kl), m, half))
    else:
        total = arb(plan.kl) - arb(half).log()
        excess = exact.wealth_excess(k / m, total, m, bounds.fixed_c_grid(m, error))
    return k < m and bool(excess(p) >= 0)


def verified(rng: Random) -> str | None:
    """The verifier's own theorem accepts the bound that the library's gives."""
    name = rng.choice(list(VERIFIED))
    theorem, row = THEOREMS[name], VERIFIED[name]
    risk, kl, n, delta = four(rng)
    free: dict[str, Any] = {}
    if name == "held-out":
        risk = errors_of(rng, n) / n
    if name.startswith("held-out"):
        kl = 0.0
    if name.startswith("disintegrated"):
        kl = rng.choice([-1, 1, 1]) * kl
    if "guess" in theorem.free and rng.random() < 0.5:
        free["guess"] = risk_of(rng, n)
    if name == "catoni":
        free["lam"] = bounds.catoni_lambda(risk, kl, n, delta)
    bound = theorem.bound(risk, kl, n, delta, **free)
    named = {"guess": free.get("guess"), "lambda": free.get("lam"), "alpha": bounds.ALPHA}
    parameters = {key: value for key, value in named.items() if value is not None}
    call = f"{name}{risk, kl, n, delta, free} = {bound!r}"
    with ctx.workprec(128):
        terms = Terms(arb(risk), row.networks * arb(kl), n, arb(delta), parameters)
        value = row.markov * row.value(terms)
    if bound < 1 and not arb(bound) >= value:
        return f"{call} is refused, {value.str(20)} needed"
    needed = min(1.0, float(value.upper()))
    room = CLOSE * abs(bound - theorem.factor * risk) + 2 * ULPS * bound + 1e-300
    return f"{call}, but {needed!r} is enough for the verifier" if bound - needed > room else None


def error_counts(rng: Random) -> str | None:
    """A rate of errors counts as the errors that it stands for, and any other rate as more."""
    n = size_of(rng)
    k = errors_of(rng, n)
    if k == 0 or k >= n:
        return None
    delta, above = 0.05, math.nextafter(k / n, 1.0)
    same = bounds.clopper_pearson(k / n, n, delta)
    if same != bounds.clopper_pearson((k - 0.5) / n, n, delta):
        return f"{k}/{n} does not count as {k} errors"
    least = math.ceil(Fraction(above) * n)
    more = bounds.clopper_pearson(above, n, delta)
    return f"{above!r} of {n} counts as fewer errors than {least}" if more < same else None
