"""Features and kernels of kernel networks, computed again from their definitions in numpy.

Written apart from the library's: convolutions angle by angle at full resolution, then every second
value by its own formula, moments as sums over pixels, and kernels with another error bound.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from pacbayes.verify.redraw import Array

__all__ = [
    "NAMES",
    "Term",
    "features",
    "formula_sha256",
    "kernel_error",
    "kernel_of",
    "parse_kernel",
]

_VERSION = 1


class _Formula(NamedTuple):
    """The fields of a formula, in the order in which they are hashed."""

    upright: bool = False
    weights: tuple[float, float, float, float] = (0.0, 1.0, 1.5, 0.0)
    smooth: bool = True
    coarse: bool = False
    mirror: bool = False
    floor: float = 0.0
    pixels: bool = False


_NAMED = {
    "wavelets": _Formula(weights=(0.3, 1.0, 1.5, 0.0)),
    "strokes": _Formula(upright=True),
    "colours": _Formula(False, (1.0, 1.0, 1.0, 1.0), False, True, True, 1e-4),
    "pixels": _Formula(pixels=True),
}
NAMES = (*_NAMED, "columns")


def formula_sha256(name: str, kernel: str, shape: tuple[int, ...]) -> str:
    """Return the hash of the named features, a kernel and the shape of an example."""
    if name == "columns":
        own = f"pacbayes features {_VERSION} columns"
    else:
        values = [f"{field}={value!r}" for field, value in _NAMED[name]._asdict().items()]
        own = f"pacbayes features {_VERSION} {values}"
    text = f"{hashlib.sha256(own.encode()).hexdigest()} {spelled(parse_kernel(kernel))} {shape}"
    return hashlib.sha256(text.encode()).hexdigest()


def features(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """Return the features of examples (n, d), rounded to float32 as the formula says."""
    if name == "columns":
        return np.asarray(x.astype(float) * x.shape[1] ** -0.5, np.float32)
    found = [
        _of_images(_NAMED[name], x[i : i + 50].reshape(-1, *shape)) for i in range(0, len(x), 50)
    ]
    return np.concatenate(found)


def _of_images(f: _Formula, images: Array) -> Array:
    x = images.astype(float)
    h, w = x.shape[2:]
    top, left = (-h % 8) // 2, (-w % 8) // 2
    wide = np.zeros((*x.shape[:2], h + -h % 8, w + -w % 8))
    wide[:, :, top : top + h, left : left + w] = x
    x = _straight(wide) if f.upright else wide
    if x.shape[1] == 3:
        r, g, b = x[:, 0], x[:, 1], x[:, 2]
        opponents = (r + g + b) / 3**0.5, (r - g) / 2**0.5, (r + g - 2 * b) / 6**0.5
        x = np.stack(opponents, 1)
    twice = [_blur(_blur(_blur(_blur(x, -2), -1), -2), -1)] if f.pixels else []
    parts = twice or _energies(f, x)
    flat = np.concatenate([part.reshape(len(x), -1) for part in parts], 1)
    norms = np.linalg.norm(flat, axis=1)
    return np.asarray(flat / np.where(norms > 0, norms, 1)[:, None], np.float32)


def _energies(f: _Formula, x: Array) -> list[Array]:
    """Return the roots of averaged moduli, order by order."""
    zero, one, two, both = f.weights
    side = x.shape[-2:]
    spectrum = np.fft.fft2(x)
    small = [np.abs(np.fft.ifft2(spectrum * _wave(side, 0, k))) for k in range(8)]
    large = [_aside(spectrum, side, k) for k in range(8)]
    first = np.stack([_means(u, 1) * one for u in small] + [_means(u, 2) * two for u in large], 2)
    parts = [(_means(x, 1) * zero, 0)] if zero else []
    parts.append((first.reshape(*first.shape[:2], 2, 8, *first.shape[-2:]), 1))
    if both:
        each = [[_means(_aside(np.fft.fft2(u), side, k), 2) for k in range(8)] for u in small]
        parts.append((np.stack([np.stack(row, 2) for row in each], 2) * both, 2))
    return [_finished(f, part, angles) for part, angles in parts]


def _finished(f: _Formula, part: Array, angles: int) -> Array:
    if f.smooth:
        part = _blur(_blur(part, -2), -1)
        if angles:
            part = (np.roll(part, 1, -3) + 2 * part + np.roll(part, -1, -3)) / 4
    if f.coarse:
        part = (part[..., ::2, :] + part[..., 1::2, :]) / 2
        part = (part[..., ::2] + part[..., 1::2]) / 2
    part = np.sign(part) * np.sqrt(np.abs(part) + f.floor)
    if not f.mirror:
        return part
    other = part[..., ::-1]
    for axis in (-3, -4)[:angles]:
        other = np.roll(np.flip(other, axis), 1, axis)  # the angle k becomes −k
    return np.asarray(part + other)


def _aside(spectrum: Array, side: tuple[int, ...], k: int) -> Array:
    """Return moduli of the second scale at every second pixel, from half a pixel on."""
    turn = np.add.outer(np.fft.fftfreq(side[0]), np.fft.fftfreq(side[1])) / 2
    whole = np.fft.ifft2(spectrum * (_wave(side, 1, k) * np.exp(2j * np.pi * turn)))
    return np.abs(whole[..., ::2, ::2])


@cache
def _wave(side: tuple[int, ...], j: int, k: int) -> Array:
    """Return the transform of the Morlet wave of scale 2^j and angle πk/8."""
    sigma, xi, turn = 0.8 * 2**j, 0.75 * np.pi / 2**j, np.pi * k / 8
    rows, columns = (np.arange(-2 * s, 3 * s) for s in side)
    along = np.add.outer(rows * np.sin(turn), columns * np.cos(turn))
    across = np.add.outer(rows * np.cos(turn), -columns * np.sin(turn))
    window = np.exp(-(along**2 + across**2 / 4) / (2 * sigma**2)) / (4 * np.pi * sigma**2)
    both = []
    for whole in (window * np.exp(1j * xi * along), window.astype(complex)):
        folded = whole.reshape(5, side[0], 5, side[1]).sum(0).sum(1)
        both.append(np.fft.fft2(folded))
    ratio = both[0][0, 0] / both[1][0, 0]
    return np.asarray((both[0] - ratio * both[1]).real)


def _means(u: Array, distance: int) -> Array:
    """Return Gaussian averages in the middle of every four pixels."""
    rows, columns = (_window(count, distance) for count in u.shape[-2:])
    return np.asarray(rows @ (u @ columns.T))


@cache
def _window(count: int, distance: int) -> Array:
    length = count * distance
    found = np.zeros((length // 4, count))
    for i in range(length // 4):
        for j in range(count):
            gap = distance * j + (distance - 1) / 2 - (4 * i + 1.5)
            turns = (gap + length * t for t in range(-2, 3))
            found[i, j] = sum(math.exp(-((g / 1.6) ** 2) / 2) for g in turns)
    return np.asarray(found / found.sum(1)[:, None])


def _blur(x: Array, axis: int) -> Array:
    """Return [1 2 1]/4 averages; beyond an edge its last value goes on."""
    first, last = np.take(x, [0], axis), np.take(x, [-1], axis)
    n = x.shape[axis]
    before = np.concatenate([first, np.take(x, range(n - 1), axis)], axis)
    after = np.concatenate([np.take(x, range(1, n), axis), last], axis)
    return np.asarray((before + 2 * x + after) / 4)


def _straight(x: Array) -> Array:
    """Return images straightened, centred and scaled by their own moments, one by one."""
    h, w = x.shape[-2:]
    v, u = ((2 * np.arange(s) + 1) / s - 1 for s in (h, w))
    out = np.zeros_like(x)
    for image, into in zip(x, out, strict=True):
        p = np.abs(image).sum(0)
        y, s_y, slant, at_x, s_x = 0.0, 1.0, 0.0, 0.0, 1.0
        if p.sum() > 0:
            p = p / p.sum()
            y, at_x = float((p.sum(1) * v).sum()), float((p.sum(0) * u).sum())
            var_y = float((p.sum(1) * v**2).sum()) - y**2
            var_x = float((p.sum(0) * u**2).sum()) - at_x**2
            joint = float((p * np.outer(v, u)).sum()) - y * at_x
            slant = joint / var_y if var_y > 1e-6 else 0.0
            left = max(var_x - slant**2 * var_y, 0.0)
            s_y = min(max(math.sqrt(max(var_y, 0.0)) / 0.30, 0.6), 1.6) ** 0.7
            s_x = min(max(math.sqrt(left) / 0.26, 0.6), 1.6) ** 0.5
        rows = ((y + s_y * v + 1) * h - 1) / 2
        columns = ((at_x + s_x * u + slant * s_y * v[:, None] + 1) * w - 1) / 2
        for channel, target in zip(image, into, strict=True):
            target[:] = _read(channel, np.broadcast_to(rows[:, None], columns.shape), columns)
    return out


def _read(image: Array, rows: Array, columns: Array) -> Array:
    """Return values between pixels, linearly; zero outside."""
    h, w = image.shape
    total = np.zeros(rows.shape)
    low, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    for i in (0, 1):
        for j in (0, 1):
            r, c = low + i, left + j
            inside = (r >= 0) & (r < h) & (c >= 0) & (c < w)
            value = image[np.clip(r, 0, h - 1), np.clip(c, 0, w - 1)]
            share = (1 - np.abs(rows - r)) * (1 - np.abs(columns - c))
            total += np.where(inside, value * share, 0.0)
    return total


class Term(NamedTuple):
    """A coefficient with the kernels of its product: names, with power, depth or g."""

    coefficient: float
    factors: tuple[tuple[str, float], ...]


def parse_kernel(text: str) -> tuple[Term, ...]:
    """Read a kernel; raise ValueError if it is not one."""
    terms = []
    for part in text.split("+"):
        coefficient, factors = 1.0, []
        for word in map(str.strip, part.split("*")):
            match = re.fullmatch(r"(linear|arc-cosine|gaussian)(?:\^(\d+|\d*\.\d+))?", word)
            if match is None:
                coefficient *= float(word)
                continue
            number = float(match[2] or 1)
            if number <= 0 or (match[1] != "gaussian" and number != int(number)):
                raise ValueError(f"{text!r} is no kernel")
            factors.append((match[1], number))
        if not 0 < coefficient < math.inf:
            raise ValueError(f"{text!r} is no kernel")
        terms.append(Term(coefficient, tuple(factors)))
    return tuple(terms)


def spelled(terms: tuple[Term, ...]) -> str:
    """Return a kernel in the one spelling that is hashed."""
    numbers = {v: int(v) if v == int(v) else v for t in terms for _, v in t.factors}
    words = ([f"{t.coefficient!r}", *(f"{n}^{numbers[v]!r}" for n, v in t.factors)] for t in terms)
    return " + ".join("*".join(each) for each in words)


def kernel_of(terms: tuple[Term, ...]) -> Callable[[Array, Array, Array], Array]:
    """Return k as a function of ⟨a, b⟩, |a|² and |b|², which broadcast."""

    def k(c: Array, a: Array, b: Array) -> Array:
        total = np.zeros(np.broadcast_shapes(c.shape, a.shape, b.shape))
        for t in terms:
            product = np.full(total.shape, t.coefficient)
            for name, number in t.factors:
                if name == "linear":
                    for _ in range(int(number)):
                        product *= c
                elif name == "gaussian":
                    product *= np.exp(-number * np.maximum(a + b - 2 * c, 0))
                else:
                    size = np.sqrt(a) * np.sqrt(b)
                    cos = np.clip(
                        np.divide(c, size, out=np.zeros(total.shape), where=size > 0), -1, 1
                    )
                    for _ in range(int(number)):
                        cos = np.minimum(cos, 1.0)
                        sine = np.sqrt(1 - cos) * np.sqrt(1 + cos)  # 1 − cos² loses digits near 1
                        cos = (sine + (np.pi - np.arccos(cos)) * cos) / np.pi
                    product *= size * cos
            total += product
        return total

    return k


def kernel_error(terms: tuple[Term, ...], width: int, square: float) -> float:
    """Bound the rounding error of a value of k where squared norms are at most `square`.

    By the product rule: inner products and norms err by at most (d + 6)·2⁻⁵³ of `square`, and the
    functions by fewer than 60 roundings of their largest value.
    """
    total = 0.0
    for t in terms:
        sizes, changes = [], []
        for name, number in t.factors:
            linear = name == "linear"
            p = number if linear else 1
            power = math.inf if square > 10 ** (300 / p) else square**p
            sizes.append(1.0 if name == "gaussian" else power)
            changes.append(number * sizes[-1] if linear else 4 * number * square)
            if name == "arc-cosine":
                changes[-1] = 2 * square
        whole = math.prod(sizes)
        if square > 0 and t.coefficient * whole < 1e-250:  # where errors are more than relative
            return math.inf
        slopes = sum(c * math.prod(sizes[:i] + sizes[i + 1 :]) for i, c in enumerate(changes))
        total += t.coefficient * (slopes * (width + 6) + 60 * whole)
    return total * 2.0**-53
