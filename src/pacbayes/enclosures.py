"""Theorems and inequalities in interval arithmetic (Arb), rounded outwards.

Used by `verify` alone, whose table of theorems is its own on purpose: it shares no mathematics with
`pacbayes.bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from flint import arb

__all__ = [
    "THEOREMS",
    "Terms",
    "Theorem",
    "kl_chernoff",
    "quadrature_error",
    "stratified_bernstein",
]

_ALPHA = 1.001  # Catoni's α, a constant of the library


def _least(low: float, beyond: Callable[[float], bool]) -> arb:
    """Return the smallest float from `low` to 1 that is certainly beyond."""
    low, high = low, low if beyond(low) else 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return arb(high)


def _inverse(q: float, c: arb) -> arb:
    """Return the smallest float that is certainly at or above kl⁻¹(q, c)."""

    def beyond(p: float) -> bool:
        coins = ((arb(q), arb(p)), (1 - arb(q), 1 - arb(p)))
        return p >= 1 or bool(sum(a * (a / b).log() for a, b in coins if a != 0) >= c)

    return _least(q, beyond)


class Terms(NamedTuple):
    """What a theorem takes.

    Attributes:
        kl: KL(Q|P), of pairs of networks for tandem; ln(dQ/dP) for a drawn network.
    """

    risk: arb
    kl: arb
    n: int
    delta: arb
    parameters: Mapping[str, float]

    @property
    def complexity(self) -> arb:
        """(KL + ln(2√n/δ))/n, or 0 if that is negative."""
        total = self.kl + (2 * arb(self.n).sqrt() / self.delta).log()
        return (arb(0) if total < 0 else total) / self.n


def _small_kl(t: Terms) -> arb:
    return _inverse(float(t.risk), t.complexity)


def _catoni(t: Terms) -> arb:
    if t.parameters.get("alpha") != _ALPHA or not t.parameters.get("lambda", 0.0) > 1:
        return arb("inf")
    lam, alpha = arb(t.parameters["lambda"]), arb(_ALPHA)
    logs = 2 * (2 + lam.log() / alpha.log()).log()
    exponent = t.risk + alpha / lam * (t.kl - t.delta.log() + logs)
    return (-lam / t.n * exponent).expm1() / (-lam / t.n).expm1()


def _unexpected_bernstein(t: Terms) -> arb:
    k = max(1, math.ceil(math.log2(0.5 * math.sqrt(t.n / -math.log(float(t.delta))))))
    price = (t.kl + (k / t.delta).log()) / t.n
    grid = (arb(2) ** -i for i in range(1, k + 1))
    values = [t.risk + ((-(1 - g).log() - g) * t.risk + price) / g for g in grid]
    return min(values, key=lambda value: float(value.upper()))


def _fixed_c(t: Terms) -> arb:
    """Return the smallest p with Σ exp(n[Φ_C(p) − C·risk]) ≥ k·e^KL/δ over k values of C."""
    values, q = _grid(t.n, t.parameters.get("guess")), t.risk
    total = t.kl - t.delta.log()
    price = len(values) * (arb(0) if total < 0 else total).exp()

    def beyond(p: float) -> bool:
        return p >= 1 or bool(sum(wealth(arb(p), C) for C in values) >= price)

    def wealth(p: arb, C: arb) -> arb:
        return (t.n * (-(1 + p * (-C).expm1()).log() - C * q)).exp()

    return _least(float(q), beyond)


def _grid(n: int, guess: float | None) -> list[arb]:
    """Return the values of C that n and a guess of the risk determine, to three digits."""
    count = 1 + max(0, math.ceil(math.log2(0.6 * math.sqrt(n))))
    values = [3 / 2**i for i in range(count)]
    if guess is not None:
        r = min(max(guess, 0.25 / n), 1 - 0.25 / n)
        half = 3 / (n * r * (1 - r))
        values += [math.log(1 + math.sqrt(2 * half) + half)] * count
    return [arb(float(f"{value:.3g}")) for value in values]


def _held_out(t: Terms) -> arb:
    """Return the smallest p at which so few errors have probability δ at most."""
    errors = math.ceil(float(t.risk.upper()) * t.n - 1e-6)

    def beyond(p: float) -> bool:
        if p >= 1:
            return True
        term = (1 - arb(p)) ** t.n
        total, odds = term, arb(p) / (1 - arb(p))
        for i in range(errors):
            term = term * odds * (t.n - i) / (i + 1)
            total += term
        return bool(total <= t.delta)

    return arb(1) if errors >= t.n else _least(errors / t.n, beyond)


def _held_out_mean(t: Terms) -> arb:
    return _inverse(float(t.risk), -t.delta.log() / t.n)


class Theorem(NamedTuple):
    """A row of the table.

    Attributes:
        predictor: which a certificate must name.
        networks: number of networks that must err together: 2 for the tandem loss.
        markov: the predictor's risk is at most this times the risk of the networks.
        value: the bound on the risk of the networks, enclosed.
    """

    predictor: str
    networks: int
    markov: int
    value: Callable[[Terms], arb]


_RANDOMISED = "randomised classifier: fresh weights drawn from Q for every prediction"
_VOTE = "majority vote of all of Q, which a vote of many draws approaches"
_DRAWN = "one network drawn from Q and kept, whose weights are in drawn.safetensors"
_FIXED = "network at the prior's means, which was fixed before the bound set was seen"
THEOREMS = {
    "small-kl": Theorem(_RANDOMISED, 1, 1, _small_kl),
    "catoni": Theorem(_RANDOMISED, 1, 1, _catoni),
    "unexpected-bernstein": Theorem(_RANDOMISED, 1, 1, _unexpected_bernstein),
    "first-order": Theorem(_VOTE, 1, 2, _small_kl),
    "tandem": Theorem(_VOTE, 2, 4, _small_kl),
    "catoni-fixed": Theorem(_RANDOMISED, 1, 1, _fixed_c),
    "disintegrated": Theorem(_DRAWN, 1, 1, _small_kl),
    "disintegrated-fixed": Theorem(_DRAWN, 1, 1, _fixed_c),
    "held-out": Theorem(_FIXED, 1, 1, _held_out),
    "held-out-mean": Theorem(_FIXED, 1, 1, _held_out_mean),
}


def kl_chernoff(risk: float, N: int | arb, delta: arb) -> arb:
    """Enclose the upper confidence value of the mean of N draws by Chernoff's bound."""
    return _inverse(risk, (1 / delta).log() / N)


def stratified_bernstein(
    risk: float, within: float | None, pairs: int | arb, N: int | arb, delta: arb
) -> arb:
    """Enclose it by Bernstein's inequality, the variance estimated from pairs of draws."""
    if within is None:
        return arb("inf")
    log = (2 / delta).log()
    variance = _inverse(2 * within, log / pairs) / 2
    return arb(risk) + log / N / 3 + ((log / N) ** 2 / 9 + 2 * variance * log / N).sqrt()


def quadrature_error(classes: int, H: float) -> arb:
    """Bound the error of the trapezoidal rule for P(class wins), as in networks.quadrature."""
    step, pi, root, best = arb(H), arb.pi(), arb(2).sqrt(), arb(1)
    for i in range(1, 40):
        a = arb(i) / 10
        E = (pi / 2).sqrt() * (a / root).erfi()
        M = 1 - (1 / E / root).erfc() / 2 + (-1 / (2 * E * E)).exp() / (2 * pi).sqrt() * E
        value = 2 * (a * a / 2).exp() * M ** (classes - 1) / (2 * pi * a / step).expm1()
        best = value if value < best else best
    return best + arb("2.2") * (arb(7) / root).erfc() / 2
