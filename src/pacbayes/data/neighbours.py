"""Near copies: examples that lie nearer to others than a smooth density would have them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["near_copies"]

Array = NDArray[Any]
_QUERIES = 300  # examples of the bound set whose neighbours are looked at
_RANKED = 5_000  # examples of the prior among which distances are ranked
_TOGETHER = 100  # queries whose distances are held at once
_NATURAL = 0.01  # probability with which a smooth density has a neighbour that counts as a copy
_COPY = 0.2  # at most this fraction of the expected distance is a copy, in any dimension
_LEAST = 30  # fewer examples do not show what is natural


def near_copies(x: Array, own: Array, bound: Array) -> float:
    r"""Return the share of the bound set that lies unnaturally near to the prior's examples.

    In a smooth density of dimension D the number of neighbours within r grows as rᴰ. D and the
    distance r₁ of the nearest are extrapolated from the neighbours that lie at a tenth and at four
    tenths of all ranks. An example is a near copy if its nearest neighbour is nearer than
    t·r₁ with tᴰ = 0.01, which a smooth density has with probability 0.01, and t ≤ 0.2. Distances
    are measured between features as they are and in units of their deviations; the larger share
    counts. Exact copies do not: `check_sample` counts those.

    Args:
        x: features of all examples.
        own, bound: indices of the prior's part and of the bound set.
    """
    rows = x.reshape(len(x), -1)
    step = max(1, len(bound) // _QUERIES)
    mean, deviations = _moments_of(rows, own)
    varied = deviations > 0
    if len(own) < _LEAST or not varied.any():
        return 0.0
    units = np.full_like(deviations, deviations.max()), np.where(varied, deviations, 1.0)
    queries = rows[bound[::step]].astype(np.float64)
    return max(
        _near_share(_Measured(rows, own, mean, unit, varied), queries / unit) for unit in units
    )


def _moments_of(rows: Array, index: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of the features of some rows."""
    parts = _parts(index, rows.shape[1])
    mean = sum(rows[part].sum(0, dtype=np.float64) for part in parts) / max(1, len(index))
    squares = sum(np.square(rows[part] - mean).sum(0) for part in parts)
    return np.asarray(mean), np.sqrt(squares / max(1, len(index)))


def _parts(index: Array, width: int) -> list[Array]:
    """Divide indices into blocks of a million numbers."""
    size = max(1, 1_000_000 // width)
    return [index[i : i + size] for i in range(0, len(index), size)]


@dataclass(frozen=True)
class _Measured:
    """The prior's examples, of which distances are measured in units of each feature."""

    rows: Array
    index: Array
    mean: Array
    unit: Array
    varied: Array

    def __len__(self) -> int:
        return len(self.index)

    def centred(self, points: Array) -> Array:
        """Return points, which are in units, in float32 around the mean, without idle features."""
        found: Array = (points - self.mean / self.unit)[:, self.varied].astype(np.float32)
        return found

    def squares(self, points: Array, index: Array) -> Iterator[tuple[Array, Array]]:
        """Yield squared distances of centred points to some of the examples, block by block."""
        own = (points**2).sum(1)[:, None]
        for part in _parts(index, self.rows.shape[1]):
            b = self.centred(self.rows[part] / self.unit)
            yield part, own + (b**2).sum(1) - 2 * points @ b.T


def _near_share(own: _Measured, queries: Array) -> float:
    points = own.centred(queries)
    nearest = np.linalg.norm((queries - _nearest(own, points) / own.unit)[:, own.varied], axis=1)
    n = len(own)
    ranked = own.index[:: -(-n // _RANKED)]
    k, K = max(2, n // 10), max(4, 2 * n // 5)
    inner, outer = _ranks(own, points, ranked, [k * len(ranked) // n, K * len(ranked) // n])
    D = math.log(K / k) / max(1e-9, math.log(np.median(outer / inner)))
    expected = inner * k ** (-1 / D)
    near = (nearest > 0) & (nearest < expected * min(_COPY, _NATURAL ** (1 / D)))
    return float(near.mean())


def _nearest(own: _Measured, points: Array) -> Array:
    """Return the prior's example that is nearest to each point."""
    best, where = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    for part, squares in own.squares(points, own.index):
        least = squares.argmin(1)
        found = squares[np.arange(len(points)), least]
        nearer = found < best
        best[nearer], where[nearer] = found[nearer], part[least[nearer]]
    return own.rows[where].astype(np.float64)


def _ranks(own: _Measured, points: Array, index: Array, ranks: Sequence[int]) -> Array:
    """Return the distances of points to the neighbours of given ranks, (ranks, points)."""
    places, found = [rank - 1 for rank in ranks], []
    for i in range(0, len(points), _TOGETHER):
        squares = np.hstack([s for _, s in own.squares(points[i : i + _TOGETHER], index)])
        squares.partition(places, axis=1)
        found.append(np.sqrt(np.maximum(squares[:, places], 1e-30)))
    both: Array = np.concatenate(found).T
    return both
