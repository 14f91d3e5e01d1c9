"""The theorems in interval arithmetic (Arb), written for the tests alone.

Each `Excess` is a function of p that grows with p and is zero at the exact bound, so that a bound
holds if it is at least zero there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flint import arb, ctx

Excess = Callable[[float], arb]
BITS = 256
_LEFT_OUT = 2**-120


def closed(value: arb) -> Excess:
    return lambda p: p - value


def kl(q: float | arb, p: float | arb) -> arb:
    pairs = ((arb(q), arb(p)), (1 - arb(q), 1 - arb(p)))
    if any(a != 0 and b == 0 for a, b in pairs):
        return arb("inf")
    return sum((a * (a / b).log() for a, b in pairs if a != 0), arb(0))


def kl_excess(q: float, c: arb) -> Excess:
    """Of kl⁻¹(q, c), which is q if c = 0."""
    return lambda p: kl(q, p) - c if p > q else arb(p) - arb(q) - c


def kl_excess_below(q: float, c: arb) -> Excess:
    return lambda p: c - kl(q, p) if p < q else arb(p) - arb(q) + c


def complexity(total_kl: arb, n: int, delta: float, factor: int = 2) -> arb:
    """(KL + ln(factor·√n/δ)) / n."""
    return (total_kl + (factor * arb(n).sqrt() / arb(delta)).log()) / n


def price(delta: float, n: float) -> arb:
    return -arb(delta).log() / arb(n)


def tail(k: int, n: int, p: float) -> tuple[arb, arb]:
    """P(X ≤ k) and P(X > k) of Bin(n, p), the smaller one with its relative error."""
    P = arb(p)
    if n * P > k:
        low = _sum_down(k, n, P, 1 - P)
        return low, 1 - low
    high = _sum_down(n - 1 - k, n, 1 - P, P)
    return 1 - high, high


def _sum_down(k: int, n: int, p: arb, q: arb) -> arb:
    """P(X ≤ k) for k below the mean: term by term from k down, or an incomplete beta function."""
    if float((n * p * q).sqrt()) > 2000:
        found = q.beta_lower(arb(n - k), arb(k + 1), regularized=True)
        if found.rel_accuracy_bits() < 60:
            raise ArithmeticError(f"no enclosure of P(Bin({n}, {p}) ≤ {k})")
        return found
    log = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    term = total = arb(1)
    odds = q / p
    for i in range(k, 0, -1):
        ratio = odds * i / (n - i + 1)
        term *= ratio
        total += term
        if ratio < 1 and term < _LEFT_OUT * total:
            total += (term * ratio / (1 - ratio)).union(arb(0))
            break
    return total * (log + k * p.log() + (n - k) * q.log()).exp()


def tail_excess(k: int, n: int, delta: float) -> Excess:
    """Of the p with P(Bin(n, p) ≤ k) = δ, on a logarithmic scale."""

    def excess(p: float) -> arb:
        if p <= 0:
            return arb("-inf")
        if p >= 1:
            return arb("inf")
        low, high = tail(k, n, p)
        if n * arb(p) > k:
            return arb(delta).log() - low.log()
        return high.log() - (1 - arb(delta)).log()

    return excess


def wealth_excess(risk: float, total: arb, n: int, grid: Sequence[float]) -> Excess:
    """Of the p with (1/k) Σ exp(n[−ln(1 − p(1 − e^{−C})) − C·risk]) = e^total."""

    def excess(p: float) -> arb:
        logs = []
        for C in map(arb, grid):
            logs.append(n * (-(arb(p) * (-C).expm1()).log1p() - C * arb(risk)))
        top = max(logs, key=lambda value: float(value.mid()))
        others = sum(((log - top).expm1() for log in logs), arb(0))
        return top + (others / len(grid)).log1p() - total

    return excess


def fixed_c(risk: float, total: arb, n: int, C: float) -> arb:
    return (-arb(C) * arb(risk) - total / n).expm1() / (-arb(C)).expm1()


def catoni(risk: float, kl: float, n: int, delta: float, lam: float, alpha: float) -> arb:
    a, lam_, gamma = arb(alpha), arb(lam), arb(lam) / n
    grid = 2 * ((a * a * lam_).log() / a.log()).log()
    t = arb(risk) + a / lam_ * (arb(kl) - arb(delta).log() + grid)
    return (1 - (-gamma * t).exp()) / (1 - (-gamma).exp())


def bernstein(mean: arb, variance: arb, draws: arb, delta: arb) -> arb:
    """The root ε of Nε² = 2(v + ε/3)·ln(1/δ)."""
    log = (1 / delta).log()
    return mean + (log / 3 + (log * log / 9 + 2 * draws * variance * log).sqrt()) / draws


def root(excess: Excess, low: float, high: float) -> arb:
    """Enclose the root of an excess between two numbers by bisection."""
    a, b = arb(low), arb(high)
    while (b - a) > arb(2) ** -(ctx.prec // 2):
        middle = ((a + b) / 2).mid()
        found = excess(middle)
        if found >= 0:
            b = middle
        elif found < 0:
            a = middle
        else:
            break
    return a.union(b)
