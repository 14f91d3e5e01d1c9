"""Random cases: a call of the library, and the function whose zero is the exact bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np
from flint import arb, ctx

from inverses import exact, promises
from inverses.draws import (
    delta_of,
    errors_of,
    four,
    grid_of,
    log_ratio,
    rate_of,
    risk_of,
    size_of,
)
from inverses.promises import CLOSE, ULPS
from pacbayes import bounds
from pacbayes.bounds.monte_carlo import _bets

SEED = 28


@dataclass(frozen=True)
class Case:
    """A number that the library gave.

    Attributes:
        call: what was called, in words that can be repeated.
        bound: what it gave.
        risk: what the bound exceeds.
        excess: zero at the exact bound.
        most: the largest bound, which needs no proof.
        below: whether it is a lower bound.
    """

    call: str
    bound: float
    risk: float
    excess: exact.Excess
    most: float = 1.0
    below: bool = False


@dataclass(frozen=True)
class Found:
    """What came of a case.

    Attributes:
        name: function.
        fault: None, or what is wrong.
        over: how far the bound is beyond the exact one, in units of the excess over the risk.
    """

    name: str
    fault: str | None
    over: float


def run(i: int, name: str | None = None) -> Found:
    """Draw and check case i, of the function that i determines or of another."""
    ctx.prec = exact.BITS
    name = name or list(KINDS)[i % len(KINDS)]
    made = KINDS[name](Random(f"{SEED} {name} {i}"))
    if isinstance(made, str | None):
        return Found(name, made, 0.0)
    fault, over = _compare(made)
    return Found(name, fault and f"{made.call} = {made.bound!r}: {fault}", over)


def _compare(case: Case) -> tuple[str | None, float]:
    bound, sign = case.bound, -1 if case.below else 1
    at = case.excess(bound)
    trivial = bound <= 0 if case.below else bound >= case.most
    if not trivial and not sign * at >= 0:
        return "too small" if sign * at < 0 else "undecided", 0.0
    excess = abs(bound - case.risk)
    room = CLOSE * excess + ULPS * abs(bound)
    inner = bound - sign * room
    if not 0 <= inner <= case.most or room == 0:
        return None, 0.0
    further = case.excess(inner)
    if sign * further > 0:
        return "too large", 1.0
    if not further.is_finite() or not at.is_finite() or not at - further > 0:
        return None, 0.0
    over = float(at / (at - further)) * room  # to first order
    return None, max(0.0, over - ULPS * abs(bound)) / excess if excess and not trivial else 0.0


def _clopper_pearson(rng: Random) -> Case | None:
    n, delta = size_of(rng), delta_of(rng)
    k = errors_of(rng, n)
    bound = bounds.clopper_pearson(k / n, n, delta)
    if k == n:
        return None if bound == 1 else Case("all errors", bound, 1.0, exact.closed(arb(1)))
    return Case(f"clopper_pearson({k}/{n}, {delta!r})", bound, k / n, _tail(k, n, delta))


def _tail(k: int, n: int, delta: float) -> exact.Excess:
    return exact.tail_excess(k, n, delta)


def _kl_inverse(rng: Random) -> Case:
    q, c = rate_of(rng), rng.choice([0.0, 10 ** rng.uniform(-28, 3), 10 ** rng.uniform(-6, 1)])
    return Case(f"kl_inverse{q, c}", bounds.kl_inverse(q, c), q, exact.kl_excess(q, arb(c)))


def _kl_inverse_below(rng: Random) -> Case:
    q, c = rate_of(rng), rng.choice([0.0, 10 ** rng.uniform(-28, 3), 10 ** rng.uniform(-6, 1)])
    found, excess = bounds.kl_inverse_below(q, c), exact.kl_excess_below(q, arb(c))
    return Case(f"kl_inverse_below{q, c}", found, q, excess, below=True)


def _small_kl(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng)
    c = exact.complexity(arb(kl), n, delta)
    return Case(f"small_kl{given}", bounds.small_kl(*given), risk, exact.kl_excess(risk, c))


def _scaled(excess: exact.Excess, factor: int) -> exact.Excess:
    return lambda p: excess(p / factor)


def _first_order(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng)
    excess = exact.kl_excess(risk, exact.complexity(arb(kl), n, delta))
    return Case(f"first_order{given}", bounds.first_order(*given), 2 * risk, _scaled(excess, 2))


def _tandem(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng)
    excess = exact.kl_excess(risk, exact.complexity(2 * arb(kl), n, delta))
    return Case(f"tandem{given}", bounds.tandem(*given), 4 * risk, _scaled(excess, 4))


def _disintegrated(rng: Random) -> Case:
    risk, _, n, delta = four(rng)
    ratio, networks = log_ratio(rng, n)
    found = bounds.disintegrated(risk, ratio, n, delta, networks=networks)
    c = exact.complexity(arb(ratio) + arb(networks).log(), n, delta)
    call = f"disintegrated{risk, ratio, n, delta, networks}"
    return Case(call, found, risk, exact.kl_excess(risk, arb(0) if c < 0 else c))


def _catoni(rng: Random) -> Case:
    given = four(rng, 1)
    alpha = rng.choice([bounds.ALPHA, 1 + 10 ** rng.uniform(-6, 2)])
    lam = rng.choice([bounds.catoni_lambda(*given, alpha=alpha), 1 + 10 ** rng.uniform(-6, 14)])
    found = bounds.catoni(*given, lam=lam, alpha=alpha)
    value = exact.catoni(*given, lam, alpha)
    return Case(f"catoni{(*given, lam, alpha)}", found, given[0], exact.closed(value))


def _catoni_minimum(rng: Random) -> str | None:
    risk, _, n, _ = given = four(rng, 1)
    found = bounds.catoni(*given)
    grid = (math.exp(rng.uniform(1e-6, math.log(1000 * n))) for _ in range(100))
    least = min(bounds.catoni(*given, lam=lam) for lam in grid)
    worse = found - least > CLOSE * abs(found - risk) + ULPS * found
    return f"catoni{given} = {found!r}, but {least!r} at another λ" if worse else None


def _one_c(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng, 1)
    C = 10 ** rng.uniform(-8, 2.8)
    value = exact.fixed_c(risk, arb(kl) - arb(delta).log(), n, C)
    return Case(f"one C{(*given, C)}", bounds.catoni_fixed(*given, C=C), risk, exact.closed(value))


def _catoni_fixed(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng, 1)
    way = grid_of(rng, n)
    grid = way.get("C") or bounds.fixed_c_grid(n, way.get("guess"))
    excess = exact.wealth_excess(risk, arb(kl) - arb(delta).log(), n, grid)
    return Case(f"catoni_fixed{given}, {way}", bounds.catoni_fixed(*given, **way), risk, excess)


def _disintegrated_fixed(rng: Random) -> Case:
    risk, _, n, delta = four(rng, 1)
    (ratio, networks), way = log_ratio(rng, n), grid_of(rng, n)
    found = bounds.disintegrated_fixed(risk, ratio, n, delta, networks=networks, **way)
    grid = way.get("C") or bounds.fixed_c_grid(n, way.get("guess"))
    total = arb(ratio) + arb(networks).log() - arb(delta).log()
    excess = exact.wealth_excess(risk, arb(0) if total < 0 else total, n, grid)
    call = f"disintegrated_fixed{risk, ratio, n, delta, networks}, {way}"
    return Case(call, found, risk, excess)


def _unexpected_bernstein(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng, 1)
    V = rng.choice([None, rng.uniform(risk**2, 1)])
    k = max(1, math.ceil(math.log2(0.5 * math.sqrt(n / -math.log(delta)))))
    price, second = arb(kl) + (k / arb(delta)).log(), arb(risk if V is None else V)
    values = []
    for i in range(1, k + 1):
        g = arb(2) ** -i
        values.append(arb(risk) + (-(1 - g).log() - g) / g * second + price / (n * g))
    value = min(values, key=lambda v: float(v.mid()))
    found = bounds.unexpected_bernstein(*given, second_moment=V)
    return Case(f"unexpected_bernstein{given}, {V}", found, risk, exact.closed(value))


def _relaxed(rng: Random) -> Case:
    risk, kl, n, delta = given = four(rng)
    c, r = exact.complexity(arb(kl), n, delta), arb(risk)
    name = rng.choice(["mcallester", "quadratic", "thiemann", "catoni_c"])
    free: dict[str, float] = {}
    if name == "mcallester":
        value = r + (c / 2).sqrt()
    elif name == "quadratic":
        value = ((r + c / 2).sqrt() + (c / 2).sqrt()) ** 2
    elif name == "thiemann":
        free["lam"] = rng.choice([rng.uniform(1e-9, 2), 2 - 10 ** rng.uniform(-12, 0)])
        value = (r + c / arb(free["lam"])) / (1 - arb(free["lam"]) / 2)
    else:
        free["C"] = 10 ** rng.uniform(-8, 2.8)
        value = (-arb(free["C"]) * r - c).expm1() / (-arb(free["C"])).expm1()
    found = getattr(bounds, name)(*given, **free)
    return Case(f"{name}{given}, {free}", found, risk, exact.closed(value))


def _split_kl(rng: Random) -> Case:
    _, kl, n, delta = four(rng)
    count = rng.randrange(1, 5)
    levels = sorted({0.0, *(round(rng.random(), 6) + 1e-3 for _ in range(count))})
    parts = sorted((risk_of(rng, n) for _ in levels[1:]), reverse=True)
    steps = [arb(b) - arb(a) for a, b in pairwise(levels)]
    c = exact.complexity(arb(kl), n, delta, 2 * len(steps))
    value = sum(
        (s * exact.root(exact.kl_excess(m, c), m, 1) for s, m in zip(steps, parts, strict=True)),
        arb(levels[0]),
    )
    mean = levels[0] + sum(float(s) * m for s, m in zip(steps, parts, strict=True))
    found = bounds.split_kl(levels, parts, kl, n, delta)
    call = f"split_kl{levels, parts, kl, n, delta}"
    return Case(call, found, mean, exact.closed(value), most=levels[-1])


def _c_bound(rng: Random) -> Case:
    risk, kl, n, delta = four(rng)
    apart = min(0.5, 2 * risk * (1 - risk)) * rng.choice([1.0, rng.random()])
    r = exact.root(exact.kl_excess(risk, exact.complexity(arb(kl), n, delta, 4)), risk, 1)
    c = exact.complexity(2 * arb(kl), n, delta, 4)
    d = exact.root(exact.kl_excess_below(apart, c), 0, apart)
    value = arb(1) if r >= 0.5 else 1 - (1 - 2 * r) ** 2 / (1 - 2 * d)
    found = bounds.c_bound(risk, apart, kl, n, delta)
    return Case(f"c_bound{risk, apart, kl, n, delta}", found, 0.0, exact.closed(value))


def _kl_chernoff(rng: Random) -> Case:
    draws, mean, delta = 10 ** rng.uniform(0, 15), rate_of(rng), delta_of(rng)
    found = bounds.kl_chernoff(mean, draws, delta)
    excess = exact.kl_excess(mean, exact.price(delta, draws))
    return Case(f"kl_chernoff{mean, draws, delta}", found, mean, excess)


def _bernstein(rng: Random) -> Case:
    draws, mean, delta = 10 ** rng.uniform(0, 15), rate_of(rng), delta_of(rng)
    variance = rng.choice([0.0, rng.random() / 4, 10 ** rng.uniform(-20, 0)])
    value = exact.bernstein(arb(mean), arb(variance), arb(draws), arb(delta))
    found = bounds.bernstein(mean, variance, draws, delta)
    return Case(f"bernstein{mean, variance, draws, delta}", found, mean, exact.closed(value))


def _empirical_bernstein(rng: Random) -> Case:
    draws, mean, delta = size_of(rng, 2), rate_of(rng), delta_of(rng)
    V, log = rng.choice([0.0, rng.random() / 4]), (2 / arb(delta)).log()
    value = arb(mean) + (2 * arb(V) * log / draws).sqrt() + 7 * log / (3 * (arb(draws) - 1))
    found = bounds.empirical_bernstein(mean, V, draws, delta)
    return Case(f"empirical_bernstein{mean, V, draws, delta}", found, mean, exact.closed(value))


def _stratified_bernstein(rng: Random) -> Case:
    mean, n, T, delta = rate_of(rng), size_of(rng), 2 * rng.randrange(1, 500), delta_of(rng)
    within = rng.choice([0.0, 0.5, rng.random() / 2, 10 ** rng.uniform(-12, -1)])
    pairs, draws, half = n * (T // 2), n * T, arb(delta) / 2
    twice = exact.root(exact.kl_excess(2 * within, -half.log() / pairs), 2 * within, 1)
    value = exact.bernstein(arb(mean), twice / 2, arb(draws), half)
    found = bounds.stratified_bernstein(mean, within, pairs, draws, delta)
    call = f"stratified_bernstein{mean, within, pairs, draws, delta}"
    return Case(call, found, mean, exact.closed(value))


def _betting(rng: Random) -> Case:
    count, delta = int(10 ** rng.uniform(0, 3)), delta_of(rng)
    shape, near = 10 ** rng.uniform(-2, 1), rate_of(rng)
    draws = [rng.betavariate(shape * max(near, 1e-9), shape) for _ in range(count)]
    bets, x = _bets(np.array(draws), delta).tolist(), [arb(v) for v in draws]

    def excess(m: float) -> arb:
        won = sum(((1 + arb(b) * (m - v)).log() for b, v in zip(bets, x, strict=True)), arb(0))
        return won + arb(delta).log()

    found = bounds.betting(draws, delta)
    return Case(f"betting({draws}, {delta})", found, math.fsum(draws) / count, excess)


KINDS: dict[str, Callable[[Random], Case | str | None]] = {
    "clopper_pearson": _clopper_pearson,
    "clopper_pearson, counts": promises.error_counts,
    "kl_inverse": _kl_inverse,
    "kl_inverse_below": _kl_inverse_below,
    "kl_chernoff": _kl_chernoff,
    "small_kl": _small_kl,
    "mcallester, quadratic, thiemann, catoni_c": _relaxed,
    "catoni": _catoni,
    "catoni, its minimum": _catoni_minimum,
    "catoni_fixed, one C": _one_c,
    "catoni_fixed": _catoni_fixed,
    "disintegrated": _disintegrated,
    "disintegrated_fixed": _disintegrated_fixed,
    "unexpected_bernstein": _unexpected_bernstein,
    "first_order": _first_order,
    "tandem": _tandem,
    "c_bound": _c_bound,
    "split_kl": _split_kl,
    "bernstein": _bernstein,
    "empirical_bernstein": _empirical_bernstein,
    "stratified_bernstein": _stratified_bernstein,
    "betting": _betting,
    "Plan": promises.plan,
    "verify": promises.verified,
}
