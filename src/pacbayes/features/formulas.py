"""Features of one example each: formulas with names and versions, which have seen no data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pacbayes.features.wavelets import ANGLES, STEP, moduli

__all__ = ["FORMULAS", "ImageFormula", "opponent", "upright"]

Array = NDArray[np.float64]
Features = NDArray[np.float32]
VERSION = 1  # raise it when a formula gives other numbers
_BLOCK = 100  # images at a time, which fit into a cache
_OPPONENT = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])


@dataclass(frozen=True)
class ImageFormula:
    """Roots of an image's wavelet energies, as a unit vector: float32 computed in float64.

    Attributes:
        upright: straighten, centre and scale the image by its own moments (`upright`).
        weights: of order 0, the first and second scale of order 1, and order 2; 0 leaves one out.
        smooth: average over neighbours by [1 2 1]/4 in rows, columns and angles.
        coarse: average blocks of 2×2 places.
        mirror: add the same of the mirror image.
        floor: is added below the root, where small energies are noise.
        pixels: the image itself instead, averaged over neighbours twice by [1 2 1]/4.
    """

    upright: bool = False
    weights: tuple[float, float, float, float] = (0.0, 1.0, 1.5, 0.0)
    smooth: bool = True
    coarse: bool = False
    mirror: bool = False
    floor: float = 0.0
    pixels: bool = False

    @property
    def sha256(self) -> str:
        """Hash of the formula: its fields, and the version of the code."""
        values = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)]
        return hashlib.sha256(f"pacbayes features {VERSION} {values}".encode()).hexdigest()

    def __call__(self, x: NDArray[np.floating], shape: tuple[int, ...]) -> Features:
        """Return the features of examples (n, d) with the shape (channels, height, width)."""
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise ValueError(
                f"features of images need a shape (1 or 3, height, width), got {shape}; use "
                "--features columns for tables"
            )
        blocks = (x[start : start + _BLOCK] for start in range(0, len(x), _BLOCK))
        return np.concatenate([self._block(block.reshape(-1, *shape)) for block in blocks])

    def _block(self, x: NDArray[np.floating]) -> Features:
        parts = [part.reshape(len(x), -1) for part in self._parts(x)]
        return unit(np.concatenate(parts, 1)).astype(np.float32)

    def _parts(self, x: NDArray[np.floating]) -> Iterator[Array]:
        """Yield energies by order, (B, channels, …, h', w')."""
        y = _padded(np.asarray(x, np.float64))
        y = upright(y) if self.upright else y
        y = opponent(y) if y.shape[1] == 3 else y
        if self.pixels:
            yield _smoothed(y, (-2, -1, -2, -1))
            return
        zero, first, second = moduli(y, second=self.weights[3] > 0)
        first = first * np.array(self.weights[1:3]).reshape(2, 1, 1, 1)
        parts = [(zero * self.weights[0], 0)] if self.weights[0] else []
        parts += [(first, 1)] + ([] if second is None else [(second * self.weights[3], 2)])
        for part, angles in parts:
            if self.smooth:
                part = _smoothed(part, (-2, -1))
                part = _smoothed(part, (-3,), mode="wrap") if angles else part
            part = _halved(part) if self.coarse else part
            part = np.sign(part) * np.sqrt(np.abs(part) + self.floor)
            yield _mirrored(part, angles) if self.mirror else part


def unit(x: Array) -> Array:
    """Return rows divided by their norms; rows of zeros stay."""
    norms: Array = np.sqrt(np.square(x).sum(1, keepdims=True))
    norms[norms == 0] = 1.0
    found: Array = x / norms
    return found


def opponent(x: Array) -> Array:
    """Return grey, red less green, and yellow less blue, of images (B, 3, h, w)."""
    basis = _OPPONENT / np.sqrt(np.square(_OPPONENT).sum(1, keepdims=True))
    found: Array = np.einsum("oc,bchw->bohw", basis, x)
    return found


def _padded(x: Array) -> Array:
    """Return images within zeros, so that the sides are multiples of eight."""
    more = [-side % (2 * STEP) for side in x.shape[-2:]]
    return np.pad(x, [(0, 0), (0, 0), *((m // 2, m - m // 2) for m in more)])


def upright(x: Array) -> Array:
    """Straighten, centre and scale images by their own moments, (B, c, h, w).

    With the mean m, the deviation σ_y, the slant a = cov/σ_y² and the deviation σ_x across it of
    the grey values, in coordinates from −1 to 1, the place (u, v) of the result shows the image at
    y = m_y + s_y·v and x = m_x + s_x·u + a·s_y·v, between pixels linearly.
    """
    h, w = x.shape[-2:]
    rows, columns = ((2 * np.arange(side) + 1) / side - 1 for side in (h, w))
    grey = np.abs(x).sum(1)
    mass = grey.sum((1, 2))
    full = mass > 0
    mass = np.where(full, mass, 1.0)
    by_row, by_column = grey.sum(2) / mass[:, None], grey.sum(1) / mass[:, None]
    m_y, m_x = by_row @ rows, by_column @ columns
    v_y = np.where(full, by_row @ rows**2 - m_y**2, 0.3**2)
    v_x = np.where(full, by_column @ columns**2 - m_x**2, 0.26**2)
    product = np.einsum("bhw,h,w->b", grey, rows, columns) / mass - m_y * m_x
    a = np.where(v_y > 1e-6, product / np.maximum(v_y, 1e-6), 0.0)
    across = np.maximum(v_x - a**2 * v_y, 0.0)
    s_y = np.clip(np.sqrt(np.maximum(v_y, 0.0)) / 0.30, 0.6, 1.6) ** 0.7
    s_x = np.clip(np.sqrt(across) / 0.26, 0.6, 1.6) ** 0.5
    y = np.broadcast_to(m_y[:, None, None] + np.multiply.outer(s_y, rows)[:, :, None], grey.shape)
    across_rows = np.multiply.outer(a * s_y, rows)[:, :, None]
    x_at = m_x[:, None, None] + np.multiply.outer(s_x, columns)[:, None, :] + across_rows
    return _between(x, ((y + 1) * h - 1) / 2, ((x_at + 1) * w - 1) / 2)


def _between(x: Array, rows: Array, columns: Array) -> Array:
    """Return the values of images at places between pixels, linearly; zero outside."""
    B, c, h, w = x.shape
    framed = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]).reshape(B, c, -1)
    r, s = np.clip(rows + 1, 0, h + 1), np.clip(columns + 1, 0, w + 1)
    top, left = (np.minimum(np.floor(t), side).astype(np.int64) for t, side in ((r, h), (s, w)))
    down, right = r - top, s - left
    corner = (top * (w + 2) + left).reshape(B, 1, -1)
    found = np.zeros((B, c, corner.shape[-1]))
    for i, by_row in ((0, 1 - down), (1, down)):
        for j, by_column in ((0, 1 - right), (1, right)):
            part = np.take_along_axis(framed, corner + i * (w + 2) + j, 2)
            found += part * (by_row * by_column).reshape(B, 1, -1)
    return found.reshape(B, c, *rows.shape[1:])


def _smoothed(x: Array, axes: tuple[int, ...], mode: str = "edge") -> Array:
    """Return [1 2 1]/4 averages along axes; beyond an edge its last value goes on."""
    for axis in axes:
        width = [(0, 0)] * x.ndim
        width[axis] = (1, 1)
        wide = np.moveaxis(np.pad(x, width, mode=mode), axis, 0)  # type: ignore[call-overload]
        x = np.moveaxis(0.25 * (wide[:-2] + 2 * wide[1:-1] + wide[2:]), 0, axis)
    return x


def _mirrored(x: Array, angles: int) -> Array:
    """Return averages plus those of the mirror image, in which the angle k is (8 − k) mod 8."""
    other, turned = x[..., ::-1], -np.arange(ANGLES) % ANGLES
    for axis in range(-3, -3 - angles, -1):
        other = np.take(other, turned, axis)
    found: Array = x + other
    return found


def _halved(x: Array) -> Array:
    *lead, h, w = x.shape
    found: Array = x.reshape(*lead, h // 2, 2, w // 2, 2).mean((-3, -1))
    return found


@dataclass(frozen=True)
class Columns:
    """The columns of a table as they are, over the root of their number."""

    @property
    def sha256(self) -> str:
        """Hash of the formula."""
        return hashlib.sha256(f"pacbayes features {VERSION} columns".encode()).hexdigest()

    def __call__(self, x: NDArray[np.floating], shape: tuple[int, ...] = ()) -> Features:
        """Return the features of examples (n, d)."""
        scaled: Array = np.asarray(x, np.float64) * x.shape[1] ** -0.5
        return scaled.astype(np.float32)


Formula = Callable[[NDArray[np.floating], tuple[int, ...]], Features]
FORMULAS: dict[str, ImageFormula | Columns] = {
    "wavelets": ImageFormula(weights=(0.3, 1.0, 1.5, 0.0)),
    "strokes": ImageFormula(upright=True),
    "colours": ImageFormula(
        weights=(1.0, 1.0, 1.0, 1.0), smooth=False, coarse=True, mirror=True, floor=1e-4
    ),
    "pixels": ImageFormula(pixels=True),
    "columns": Columns(),
}
