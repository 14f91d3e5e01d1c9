"""Checks that examples can be an independent sample, without which no bound holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import blocks_of

__all__ = [
    "NEAR",
    "FittedError",
    "NoSampleError",
    "check_sample",
    "check_split",
    "near_copies",
    "refuse_repeats",
]

Array = NDArray[Any]
_ANYWAY = 3  # repeated examples that are always allowed
_REPEATED = 0.01  # share of repeated examples allowed; sampling with replacement has 0.37
_REPEATED_DISCRETE = 0.1  # the same where no feature is continuous, and repeats are natural
NEAR, _REMARKABLE = 0.2, 0.02  # shares of near copies that are refused, and that are remarked on
_QUERIES = 300  # examples of the bound set whose neighbours are looked at
_RANKED = 5_000  # examples of the prior among which distances are ranked
_TOGETHER = 100  # queries whose distances are held at once
_NATURAL = 0.01  # probability with which a smooth density has a neighbour that counts as a copy
_COPY = 0.2  # at most this fraction of the expected distance is a copy, in any dimension
_CLOSE = 1e-6  # rounding error that a fitted step may leave
_ENOUGH = 30  # fewer examples may have a round mean or scale by chance
_LOOKED_AT = 20  # features that are looked at closely: enough to tell, and fast
_REMEDY = (
    "remove them with --deduplicate, or declare that your data naturally repeat with --repeats, or "
    "repeats=True"
)


class NoSampleError(ValueError):
    """Raised when examples are visibly not independent draws, so that no bound holds for them."""


class FittedError(NoSampleError):
    """Raised when preprocessing was visibly fitted to the examples."""


def check_sample(x: Array, y: Array, *, repeats: bool, groups: Array | None = None) -> list[str]:
    """Raise NoSampleError if examples are repeated, or preprocessing was fitted to them.

    Give all training examples: a copy among the prior's examples reveals the bound set.

    Args:
        repeats: allow duplicates, which are natural in data with few discrete features.
        groups: the group of each example, within which duplicates are allowed.

    Returns:
        Remarks on what is allowed but unusual.
    """
    rows = np.ascontiguousarray(x).reshape(len(x), -1)
    remarks = [] if repeats else _check_repeats(rows, y, groups)
    _refuse_fitted(rows)
    return remarks


def check_split(x: Array, own: Array, bound: Array, *, repeats: bool) -> list[str]:
    """Raise NoSampleError if the bound set consists of near copies of the prior's examples.

    Args:
        x: features of all examples.
        own, bound: indices of the prior's part and of the bound set.
        repeats: only remark on near copies.
    """
    near = near_copies(x, own, bound)
    says = f"{100 * near:.0f} % of the bound set are near copies of the prior's examples"
    if near > NEAR and not repeats:
        raise NoSampleError(
            f"{says} (at most {100 * NEAR:.0f} % are allowed), so they are not independent; "
            f"give one example of each, name the column that says which rows belong together with "
            f"--group, or {_REMEDY.split(', or ', 1)[1]}"
        )
    return [says] if near > _REMARKABLE else []


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
    if len(own) < _ENOUGH or not varied.any():
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


def _check_repeats(rows: Array, y: Array, groups: Array | None) -> list[str]:
    """Count examples that repeat, but not those that repeat within a group."""
    kept = np.arange(len(rows))
    if groups is not None:
        kept = np.sort(np.unique(_hashes(rows, y, groups), return_index=True)[1])
    again = len(kept) - len(np.unique(_hashes(rows, y)))
    looked_at = (_as_seen(column[kept]) for column in rows[:, :_LOOKED_AT].T)
    discrete = not any(len(np.unique(column)) > len(kept) / 2 for column in looked_at)
    return refuse_repeats(again, len(kept), discrete=discrete)


def _hashes(rows: Array, y: Array, groups: Array | None = None) -> Array:
    """Return a hash of every example with its label and group."""
    found = (
        hash((row.tobytes(), label, group))
        for block in blocks_of(rows)
        for row, label, group in zip(
            _as_seen(rows[block]),
            y[block].tolist(),
            [None] * len(y[block]) if groups is None else groups[block].tolist(),
            strict=True,
        )
    )
    return np.fromiter(found, np.int64, len(rows))


def _as_seen(rows: Array) -> Array:
    """Return examples as a network sees them: in float32, and −0 as 0."""
    seen: Array = rows.astype(np.float32) + 0.0
    return seen


def _moments(rows: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of features in float64."""
    mean: Array = rows.mean(0, dtype=np.float64)
    squares = sum(np.square(rows[block] - mean).sum(0) for block in blocks_of(rows))
    return mean, np.sqrt(squares / (len(rows) - 1)) if len(rows) > 1 else np.zeros_like(mean)


def refuse_repeats(again: int, n: int, *, discrete: bool, remedy: str = _REMEDY) -> list[str]:
    """Raise NoSampleError if too many of n examples are copies of others; remark on some.

    Args:
        again: the number of copies.
        discrete: whether no feature is continuous, so that some repeats are natural.
        remedy: what to do about them, in words.
    """
    says = f"{again} of {n} examples are duplicates"
    if again > max(_ANYWAY, (_REPEATED_DISCRETE if discrete else _REPEATED) * n):
        raise NoSampleError(
            f"{says}: examples that were augmented or drawn with replacement are not independent; "
            f"{remedy}"
        )
    return [f"{says}, as is natural where features are discrete"] if again > _ANYWAY else []


@dataclass(frozen=True)
class _Spread:
    """How the values of a feature are spread.

    Attributes:
        distinct: number of different values.
        at_ends: number of values that are the least or the largest.
    """

    distinct: int
    low: float
    high: float
    at_ends: int
    deviation: float
    quartiles: tuple[float, float, float]

    @classmethod
    def of(cls, column: Array) -> _Spread:
        values = np.sort(column.astype(np.float64))
        low, high = values[0], values[-1]
        return cls(
            distinct=1 + int((np.diff(values) != 0).sum()),
            low=float(low),
            high=float(high),
            at_ends=int((values == low).sum() + (values == high).sum()),
            deviation=float(values.std()),
            quartiles=tuple(np.quantile(values, [0.25, 0.5, 0.75]).tolist()),
        )


def _refuse_fitted(rows: Array) -> None:
    """Raise FittedError if means or scales are so round that they were fitted to these rows."""
    means, deviations = _moments(rows)
    varied = deviations > 0
    if len(rows) < _ENOUGH or not varied.any():
        return
    few = [_Spread.of(rows[:, j]) for j in np.flatnonzero(varied)[:_LOOKED_AT]]
    distinct = np.array([spread.distinct for spread in few])
    continuous = distinct > len(rows) / 2  # others may have round means and scales by nature
    _refuse_centred(means[varied], deviations[varied], len(rows), continuous, distinct > 2)
    if continuous.sum() >= min(2, len(few)):
        _refuse_fitted_scales([few[i] for i in np.flatnonzero(continuous)])


def _refuse_centred(
    means: Array, deviations: Array, n: int, continuous: Array, varied: Array
) -> None:
    """Raise FittedError if all features, or all continuous ones, have mean zero.

    Args:
        continuous, varied: of the features looked at, those with a different value in most rows,
            and those with more than two values (two values may balance by themselves).
    """
    root, k = math.sqrt(n), len(continuous)
    centred = np.abs(means) * root < 0.01 * deviations  # by chance 0.008 a feature
    scaled = np.abs(deviations[:k] - 1) * root < 0.1
    together = varied & centred.all()
    alone = continuous & centred[:k][continuous].all()
    for these in (together, alone):
        if these.sum() >= 3 or (these.any() and scaled[these].all()):
            raise FittedError(
                "every feature has mean zero on the training set, so preprocessing was fitted to "
                "it; fit preprocessing to other data"
            )


def _refuse_fitted_scales(features: Sequence[_Spread]) -> None:
    """Raise FittedError if the scales of all continuous features are round."""
    if found := _round_range(features) or _round_spread(features):
        raise FittedError(
            f"every feature {found} on the training set, so its scale was fitted to it; "
            "scale by constants that you know beforehand"
        )


def _round_range(features: Sequence[_Spread]) -> str | None:
    if sum(f.at_ends <= 4 for f in features) < min(2, len(features)):  # clipping repeats its ends
        return None
    low, high = (np.array([getattr(f, end) for f in features]) for end in ("low", "high"))
    return _round_ends(low, high)


def _round_ends(low: Array, high: Array) -> str | None:
    if _close(low, 0) and _close(high, 1):
        return "spans exactly [0, 1]"
    if _close(low, -1) and _close(high, 1):
        return "spans exactly [−1, 1]"
    largest = np.maximum(np.abs(low), np.abs(high))
    return "has a largest magnitude of exactly 1" if _close(largest, 1) else None


def _round_spread(features: Sequence[_Spread]) -> str | None:
    if len(features) > 2 and _close(np.array([f.deviation for f in features]), 1):
        return "has standard deviation 1"
    low, median, high = np.array([f.quartiles for f in features]).T
    if _close(median, 0) and _close(high - low, 1):
        return "has median 0 and interquartile range 1"
    return None


def _close(values: Array, to: float) -> bool:
    return bool((np.abs(values - to) < _CLOSE).all())
