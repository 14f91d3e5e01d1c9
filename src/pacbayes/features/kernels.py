r"""Kernels of features: sums of products of powers, arc-cosines and Gaussians, by formula.

Each is a function of c = ⟨a, b⟩, |a|² and |b|², positive semidefinite on all of R^d:

- ``linear^p``: c^p.
- ``arc-cosine^L``: |a||b|·J(J(…(c/(|a||b|)))), L times, with
  J(t) = (√(1 − t²) + (π − arccos t)·t)/π: L infinitely wide ReLU layers (Cho & Saul 2009).
- ``gaussian^g``: exp(−g·|a − b|²).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Factor", "Kernel"]

Array = NDArray[np.float64]
_UNIT = 2.0**-53  # relative rounding error of float64
_LEAST = 1e-250  # below it, roundings may be more than relative
_FACTOR = re.compile(r"(linear|arc-cosine|gaussian)(?:\^(\d+|\d*\.\d+))?")
_HIGHEST = {"linear": 20, "arc-cosine": 3, "gaussian": 1e6}
_SPELLING = (
    "write sums and products of linear^POWER, arc-cosine^DEPTH and gaussian^G, such as "
    "'0.98*linear^5 + 0.02'"
)


class Factor(NamedTuple):
    """One of the kernels, with its power, depth or g."""

    name: str
    number: float

    def value(self, c: Array, a: Array, b: Array) -> Array:
        """Return k at products c of points with the squared norms a and b, which broadcast."""
        if self.name == "linear":
            return _power(c, int(self.number))
        if self.name == "gaussian":
            found: Array = np.exp(-self.number * np.maximum(a + b - 2 * c, 0.0))
            return found
        norms = np.sqrt(a * b)
        t = np.clip(c / np.where(norms > 0, norms, 1.0), -1.0, 1.0)
        for _ in range(int(self.number)):
            t = np.minimum(t, 1.0)  # 1 − t² as a product: its root magnifies roundings near 1
            t = (np.sqrt((1 - t) * (1 + t)) + (np.pi - np.arccos(t)) * t) / np.pi
        return norms * t

    def most(self, square: float) -> tuple[float, float]:
        """Return upper bounds of |k|, and of its change by relative errors of c, a and b.

        Squared norms are at most `square`. J is at most 1 and has slopes from 0 to 1, so that
        a·∂k/∂a is at most ½|a||b|.
        """
        if self.name == "linear":
            size = math.inf if square > 10 ** (300 / self.number) else square**self.number
            return size, self.number * size
        return (1.0, 4 * self.number * square) if self.name == "gaussian" else (square, 2 * square)


@dataclass(frozen=True)
class Kernel:
    """A sum of products of kernels with positive coefficients.

    Attributes:
        terms: coefficients, each with the factors of its product; none is a constant.
    """

    terms: tuple[tuple[float, tuple[Factor, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> Kernel:
        """Read a kernel such as `0.98*linear^5 + 0.02` or `linear*arc-cosine^2`."""
        return cls(tuple(_term(part.strip(), text) for part in text.split("+")))

    def __str__(self) -> str:
        each = ([f"{c!r}", *(f"{f.name}^{_short(f.number)}" for f in fs)] for c, fs in self.terms)
        return " + ".join("*".join(term) for term in each)

    def __call__(self, x: NDArray[np.floating], z: NDArray[np.floating]) -> Array:
        """Return k(x_i, z_j), (m, n), in float64, of features (m, d) and (n, d)."""
        u, v = (np.asarray(points, np.float64) for points in (x, z))
        return self._sum(u @ v.T, _squares(u)[:, None], _squares(v))

    def diagonal(self, x: NDArray[np.floating]) -> Array:
        """Return k(x_i, x_i), (m,)."""
        squares = _squares(np.asarray(x, np.float64))
        return self._sum(squares, squares, squares)

    def error(self, width: int, square: float) -> float:
        """Bound the rounding error of a value, for features (d,) with squared norms ≤ `square`.

        A product of d numbers errs by at most d·u·|a||b|/(1 − d·u) whatever the order of the sum,
        which the slopes carry on; a hundred roundings are allowed for the functions themselves.
        Infinite where values may be too large or too small for float64.
        """
        total = 0.0
        for coefficient, factors in self.terms:
            bounds = [factor.most(square) for factor in factors]
            tops = [top for top, _ in bounds]
            if square > 0 and coefficient * math.prod(tops) < _LEAST:
                return math.inf
            change = sum(s * math.prod(tops[:i] + tops[i + 1 :]) for i, (_, s) in enumerate(bounds))
            total += coefficient * (change * (width + 8) + 100 * math.prod(tops))
        return total * _UNIT * 1.01

    def _sum(self, c: Array, a: Array, b: Array) -> Array:
        total = np.zeros_like(c)
        for coefficient, factors in self.terms:
            product = np.full_like(c, coefficient)
            for factor in factors:
                product *= factor.value(c, a, b)
            total += product
        return total


def _short(number: float) -> str:
    """Return all digits of a number, but no more."""
    return repr(number).removesuffix(".0")


def _term(text: str, whole: str) -> tuple[float, tuple[Factor, ...]]:
    coefficient, factors = 1.0, []
    for part in map(str.strip, text.split("*")):
        if found := _FACTOR.fullmatch(part):
            factors.append(_factor(found[1], found[2], whole))
        else:
            try:
                coefficient *= float(part)
            except ValueError:
                raise ValueError(
                    f"cannot read {part!r} in the kernel {whole!r}; {_SPELLING}"
                ) from None
    if not 0 < coefficient < math.inf:
        raise ValueError(f"a kernel's coefficients must be positive, got {text!r} in {whole!r}")
    return coefficient, tuple(factors)


def _factor(name: str, number: str | None, whole: str) -> Factor:
    value = float(number or 1)
    if not 0 < value <= _HIGHEST[name] or (name != "gaussian" and value != int(value)):
        raise ValueError(
            f"{name}^{number} in the kernel {whole!r}: a power is a whole number up to 20, a depth "
            "up to 3, and g is positive"
        )
    return Factor(name, value)


def _power(c: Array, p: int) -> Array:
    """Return c^p by products, which are faster than powers."""
    if p == 1:
        return c
    half = _power(c * c, p // 2)
    return half * c if p % 2 else half


def _squares(x: Array) -> Array:
    found: Array = np.einsum("nd,nd->n", x, x)
    return found
