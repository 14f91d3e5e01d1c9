"""Theorems and inequalities in interval arithmetic (Arb), rounded outwards; exact sums of losses.

Used by `verify` alone, whose table of theorems is its own on purpose: it shares no mathematics with
`pacbayes.bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import acb, arb, ctx

from pacbayes.verify.redraw import Array, Laws, Weights

__all__ = [
    "INEQUALITIES",
    "THEOREMS",
    "Terms",
    "Theorem",
    "divergence",
    "log_ratio",
    "quadrature_error",
    "sum_of_means",
]

_ALPHA = 1.001  # Catoni's α, a constant of the library


def _least(low: float, beyond: Callable[[float], bool], high: float = 1.0) -> arb:
    """Return the smallest float from `low` to `high`, which is beyond, that certainly is."""
    low, high = low, low if beyond(low) else high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return arb(high)


def _inverse(q: float, c: arb) -> arb:
    """Return the smallest float that is certainly at or above kl⁻¹(q, c)."""

    def beyond(p: float) -> bool:
        coins = ((arb(q), arb(p)), (1 - arb(q), 1 - arb(p)))
        return p >= 1 or bool(sum(a * (a / b).log() for a, b in coins if a != 0) >= c)

    with ctx.workprec(256):  # ln(1 − p) of a small p needs its digits beyond those of 1
        return arb(q) if c == 0 else _least(q, beyond)


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
        values += [math.log1p(math.sqrt(2 * half) + half)] * count
    return [arb(float(f"{value:.3g}")) for value in values]


def _held_out(t: Terms) -> arb:
    """Return the smallest p at which so few errors certainly have probability δ at most."""
    errors = _errors(t.risk, t.n)

    def beyond(p: float) -> bool:
        return p >= 1 or (p > 0 and bool(_tail(errors, t.n, p, t.delta) <= t.delta))

    if errors >= t.n:
        return arb(1)
    near = _root(errors, t.n, t.delta)
    low, high = near * (1 - 1e-12), near * (1 + 1e-12)
    near_by = beyond(high) and not beyond(low)
    return _least(low, beyond, high) if near_by else _least(0.0, beyond)


def _root(k: int, n: int, delta: arb) -> float:
    """Return where P(Bin(n, p) ≤ k) is about δ, by Newton's method on its logarithm."""
    p, choices = (k + 1) / (n + 1), _log_factorial(n) - _log_factorial(k) - _log_factorial(n - k)
    for _ in range(60):
        tail, P = _tail(k, n, p, delta), arb(p)
        slope = (n - k) * (choices + k * P.log() + (n - k - 1) * (1 - P).log()).exp()
        step = float((tail / delta).log() * tail / slope)
        last, p = p, min(max(p + step, p / 16), (p + 1) / 2)
        if p >= 1 or abs(p - last) <= 1e-13 * p:
            break
    return p


def _log_factorial(n: int) -> arb:
    return arb(n + 1).lgamma()


def _errors(risk: arb, n: int) -> int:
    """Return the number of errors of a rate, which may be the float nearest to k/n."""
    near = round(Fraction(float(risk)) * n)
    if near / n == float(risk) or (risk * n).contains(near):
        return near
    return math.ceil(Fraction(float(risk.upper())) * n)


def _tail(k: int, n: int, p: float, delta: arb) -> arb:
    """Return at least P(Bin(n, p) ≤ k), too much by next to nothing against it or δ.

    Σ_j P(X ≤ j)·z^j = (q + pz)ⁿ/(1 − z) for |z| < 1. Its mean, over z^k, at N equally spaced points
    of a circle of radius r < 1 is Σ_i P(X ≤ k + iN)·r^{iN}, which is at least P(X ≤ k). Far from
    z = r the points hardly count: |q + pz| falls with the angle, which bounds what is left out.
    """
    nats = 80 - math.log(float(delta.lower()))  # of accuracy
    edge = -1 / (1 + math.sqrt(n * p * (1 - p)))  # not too near the pole at 1
    log_radius = min(math.log((k + 1) / (n - k)) + math.log((1 - p) / p), edge)
    with ctx.workprec(192):
        P, r = arb(p), arb(log_radius).exp()
        mean = 1 - P + P * r  # largest on the circle
        turn = 2 * P * (1 - P) * r / mean**2  # |q + pz|² is less by this times 1 − cos
        width = nats + math.sqrt(nats * n * float(turn))  # where X, tilted by r, is all but surely
        count = 2 * math.ceil(max(width, -nats / log_radius) / 2) + 1
        angle = 2 * arb.pi() / count
        small = -math.expm1(-2 * nats / n) / float(turn)
        last = 2 * math.asin(min(1.0, math.sqrt(small / 2)))
        used = min(count // 2, math.ceil(last * count / math.tau))
        total = 1 / (1 - r)
        for j in range(1, used + 1):
            unit = acb(0, j * angle).exp()
            log = n * ((1 - P + P * r * unit) / mean).log() - acb(0, k * j * angle)
            total += 2 * (log.exp() / (1 - r * unit)).real
        left_out = (1 - turn * (1 - (used * angle).cos())) ** (arb(n) / 2) / (1 - r)
        rest = left_out if used < count // 2 else arb(0)
        whole: arb = (n * mean.log() - k * r.log()).exp() * (total / count + rest)
    return whole


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

    def bound(self, risk: arb, kl: arb, n: int, delta: arb, parameters: Mapping[str, float]) -> arb:
        """Enclose the bound on the predictor's risk; the KL is that of one network."""
        return self.markov * self.value(Terms(risk, self.networks * kl, n, delta, parameters))


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


def _kl_chernoff(risk: float, within: float | None, pairs: arb, N: arb, delta: arb) -> arb:
    return _inverse(risk, -delta.log() / N)


def _bernstein(risk: float, within: float | None, pairs: arb, N: arb, delta: arb) -> arb:
    """Enclose it by Bernstein's inequality, the variance estimated from pairs of draws."""
    if within is None:
        return arb("inf")
    log = (2 / delta).log()
    variance = _inverse(2 * within, log / pairs) / 2
    return arb(risk) + log / N / 3 + ((log / N) ** 2 / 9 + 2 * variance * log / N).sqrt()


# Upper confidence values of the mean of N draws, enclosed.
INEQUALITIES = {"kl-chernoff": _kl_chernoff, "stratified-bernstein": _bernstein}


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


def _gaussians(laws: Laws) -> Iterator[tuple[str, arb, list[list[float]]]]:
    """Yield for every tensor of weights its name, ln σ₀, and lists of μ, μ₀ and ln σ."""
    prior, posterior = laws
    for name in (key.removesuffix(".mean") for key in posterior if key.endswith(".mean")):
        s0, means = prior[f"{name}.prior_log_scale"], posterior[f"{name}.mean"]
        logs = np.broadcast_to(posterior.get(f"{name}.log_scale", s0), means.shape)
        each = (means, prior[f"{name}.prior_mean"], logs)
        yield name, arb(float(s0)), [a.ravel().tolist() for a in each]


def divergence(laws: Laws) -> arb:
    """Enclose KL(Q|P) = ½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²]."""
    total = arb(0)
    for _, s0, each in _gaussians(laws):
        shifts = arb(0)
        for mean, center, log in zip(*each, strict=True):
            shifts += (arb(mean) - arb(center)) ** 2
            r = 2 * (arb(log) - s0)
            total += r.expm1() - r
        total += shifts * (-2 * s0).exp()
    return total / 2


def log_ratio(weights: Weights, laws: Laws) -> arb:
    """Enclose ln(dQ/dP) of a network."""
    ratio = arb(0)
    for name, s0, each in _gaussians(laws):
        for w, mean, center, log in zip(weights[name].ravel().tolist(), *each, strict=True):
            far, near = (arb(w) - arb(center)) * (-s0).exp(), (arb(w) - arb(mean)) / arb(log).exp()
            ratio += (far**2 - near**2) / 2 + s0 - arb(log)
    return ratio


def sum_of_means(wrong: Array, groups: Array | None) -> tuple[Fraction, int]:
    """Return the sum over units of the share of their examples that are wrong, and their number."""
    if groups is None:
        return Fraction(int(wrong.sum())), len(wrong)
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    found = np.bincount(sizes[index], wrong).astype(int) if len(wrong) else np.zeros(0, int)
    return sum((Fraction(int(c), s) for s, c in enumerate(found) if c), Fraction(0)), len(sizes)
