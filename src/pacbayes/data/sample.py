"""Checks that examples can be an independent sample, without which no bound holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
_NUMBERS = 1_000_000  # of a block
_QUERIES = 300  # examples of the bound set whose neighbours are looked at
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
    remarks = [] if repeats else _check_repeats(*_once_in_each(rows, y, groups))
    _refuse_fitted(rows)
    return remarks


def check_split(own: Array, bound: Array, *, repeats: bool) -> list[str]:
    """Raise NoSampleError if the bound set consists of near copies of the prior's examples.

    Args:
        own, bound: features of the prior's part and of the bound set.
        repeats: only remark on near copies.
    """
    near = near_copies(own, bound)
    says = f"{100 * near:.0f} % of the bound set are near copies of the prior's examples"
    if near > NEAR and not repeats:
        raise NoSampleError(
            f"{says} (at most {100 * NEAR:.0f} % are allowed), so they are not independent; "
            f"give one example of each, name the column that says which rows belong together with "
            f"--group, or {_REMEDY.split(', or ', 1)[1]}"
        )
    return [says] if near > _REMARKABLE else []


def near_copies(own: Array, bound: Array) -> float:
    r"""Return the share of the bound set that lies unnaturally near to the prior's examples.

    In a smooth density of dimension D the number of neighbours within r grows as rᴰ. D and the
    distance r₁ of the nearest are extrapolated from the neighbours that lie at a tenth and at four
    tenths of all ranks. An example is a near copy if its nearest neighbour is nearer than
    t·r₁ with tᴰ = 0.01, which a smooth density has with probability 0.01, and t ≤ 0.2. Distances
    are measured between features as they are and in units of their deviations; the larger share
    counts. Exact copies do not: `check_sample` counts those.
    """
    step = max(1, len(bound) // _QUERIES)
    own, some = (np.reshape(a, (len(a), -1)).astype(np.float64) for a in (own, bound[::step]))
    deviations = own.std(0)
    varied = deviations > 0
    if len(own) < _ENOUGH or not varied.any():
        return 0.0
    own, some, deviations = own[:, varied], some[:, varied], deviations[varied]
    units = (deviations.max(), deviations)  # features as they are, and in their own units
    return max(_near_share(own / unit, some / unit) for unit in units)


def _near_share(own: Array, some: Array) -> float:
    a, b = ((part - own.mean(0)).astype(np.float32) for part in (some, own))
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T  # (queries, own)
    nearest = np.linalg.norm(some - own[squares.argmin(1)], axis=1)
    k, K = max(2, len(own) // 10), max(4, 2 * len(own) // 5)
    ranked = np.sqrt(np.maximum(np.partition(squares, (k - 1, K - 1), axis=1), 1e-30))
    inner, outer = ranked[:, k - 1], ranked[:, K - 1]
    D = math.log(K / k) / max(1e-9, math.log(np.median(outer / inner)))
    expected = inner * k ** (-1 / D)
    near = (nearest > 0) & (nearest < expected * min(_COPY, _NATURAL ** (1 / D)))
    return float(near.mean())


def _once_in_each(rows: Array, y: Array, groups: Array | None) -> tuple[Array, Array]:
    """Return examples that do not repeat within a group."""
    if groups is None:
        return rows, y
    triples = zip(groups.tolist(), rows.astype(np.float32) + 0.0, y.tolist(), strict=True)
    first: dict[tuple[int, bytes, float], int] = {}
    for i, (group, row, label) in enumerate(triples):
        first.setdefault((group, row.tobytes(), label), i)
    kept = list(first.values())
    return rows[kept], y[kept]


def _check_repeats(rows: Array, y: Array) -> list[str]:
    hashes = (
        hash((row.tobytes(), label))
        for block in _blocks(rows)
        for row, label in zip(_as_seen(rows[block]), y[block].tolist(), strict=True)
    )
    again = len(rows) - len(np.unique(np.fromiter(hashes, np.int64, len(rows))))
    discrete = not _continuous(_as_seen(rows[:, :_LOOKED_AT])).any()
    return refuse_repeats(again, len(rows), discrete=discrete)


def _as_seen(rows: Array) -> Array:
    """Return examples as a network sees them: in float32, and −0 as 0."""
    seen: Array = rows.astype(np.float32) + 0.0
    return seen


def _blocks(rows: Array) -> Iterator[slice]:
    """Divide rows, so that no second copy of all of them is held."""
    size = max(1, _NUMBERS // max(1, rows.shape[1]))
    return (slice(start, start + size) for start in range(0, len(rows), size))


def _moments(rows: Array) -> tuple[Array, Array]:
    """Return means and standard deviations of features in float64."""
    mean: Array = rows.mean(0, dtype=np.float64)
    squares = sum(np.square(rows[block] - mean).sum(0) for block in _blocks(rows))
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


def _continuous(rows: Array) -> Array:
    """Return the features with a different value in most rows."""
    return np.array([len(np.unique(column)) > len(rows) / 2 for column in rows.T], bool)


def _refuse_fitted(rows: Array) -> None:
    """Raise FittedError if means or scales are so round that they were fitted to these rows."""
    means, deviations = _moments(rows)
    varied = deviations > 0
    if len(rows) < _ENOUGH or not varied.any():
        return
    few = rows[:, np.flatnonzero(varied)[:_LOOKED_AT]].astype(np.float64)
    distinct = np.array([len(np.unique(column)) for column in few.T])
    continuous = distinct > len(rows) / 2  # others may have round means and scales by nature
    _refuse_centred(means[varied], deviations[varied], len(rows), continuous, distinct > 2)
    if continuous.sum() >= min(2, few.shape[1]):
        _refuse_fitted_scales(few[:, continuous])


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


def _refuse_fitted_scales(rows: Array) -> None:
    """Raise FittedError if the scales of all continuous features, (n, d), are round."""
    if found := _round_range(rows) or _round_spread(rows):
        raise FittedError(
            f"every feature {found} on the training set, so its scale was fitted to it; "
            "scale by constants that you know beforehand"
        )


def _round_range(rows: Array) -> str | None:
    low, high = rows.min(0), rows.max(0)
    at_ends = (rows == low).sum(0) + (rows == high).sum(0)
    if (at_ends <= 4).sum() < min(2, rows.shape[1]):  # clipping repeats its ends
        return None
    return _round_ends(low, high)


def _round_ends(low: Array, high: Array) -> str | None:
    if _close(low, 0) and _close(high, 1):
        return "spans exactly [0, 1]"
    if _close(low, -1) and _close(high, 1):
        return "spans exactly [−1, 1]"
    largest = np.maximum(np.abs(low), np.abs(high))
    return "has a largest magnitude of exactly 1" if _close(largest, 1) else None


def _round_spread(rows: Array) -> str | None:
    if rows.shape[1] > 2 and _close(rows.std(0), 1):
        return "has standard deviation 1"
    low, median, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
    if _close(median, 0) and _close(high - low, 1):
        return "has median 0 and interquartile range 1"
    return None


def _close(values: Array, to: float) -> bool:
    return bool((np.abs(values - to) < _CLOSE).all())
