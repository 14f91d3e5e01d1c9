"""Checks that examples can be an independent sample, without which no bound holds.

Networks are given numbers, and models tables of any kind. A copy of an example of the bound set
among those that a prior or candidates are fitted to reveals its label.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.neighbours import near_copies
from pacbayes.data.values import (
    blocks_of,
    columns_of,
    finite_columns,
    finite_numbers,
    is_missing,
    is_table,
    numbers_of,
    row_keys,
)

if TYPE_CHECKING:
    from pacbayes.data.splitting import Split

__all__ = [
    "NEAR",
    "FittedError",
    "NoSampleError",
    "check_copies",
    "check_examples",
    "check_near_copies",
    "check_sample",
    "check_split",
    "first_of_each",
    "near_copies",
    "refuse_repeats",
]

Array = NDArray[Any]
_ANYWAY = 3  # repeated examples that are always allowed
_REPEATED = 0.01  # share of repeated examples allowed; sampling with replacement has 0.37
_REPEATED_DISCRETE = 0.1  # the same where no feature is continuous, and repeats are natural
NEAR, _REMARKABLE = 0.2, 0.02  # shares of near copies that are refused, and that are remarked on
_CLOSE = 1e-6  # rounding error that a fitted step may leave
_ENOUGH = 30  # fewer examples may have a round mean or scale by chance
_LOOKED_AT = 20  # features that are looked at closely: enough to tell, and fast
_SOME, _LIKELY = 1000, 0.4  # rows that tell, but for a chance of 1e-9, that a column repeats much
_NATURALLY = "declare that your data naturally repeat with --repeats, or repeats=True"
_REMEDY = f"remove them with --deduplicate, or {_NATURALLY}"
_NEAR = (
    "give one example of each, name the column that says which rows belong together with --group, "
    f"or {_NATURALLY}"
)
_EXACT_IN_MEMORY = (
    "remove them with deduplicate=True, give groups= if examples belong together, or declare that "
    "your data naturally repeat with repeats=True"
)
_NEAR_IN_MEMORY = (
    "give groups= if examples belong together, one example of each otherwise, or declare that your "
    "data naturally repeat with repeats=True"
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


def check_split(
    x: Array,
    own: Array,
    bound: Array,
    *,
    repeats: bool,
    others: str = "the prior's examples",
    remedy: str = _NEAR,
) -> list[str]:
    """Raise NoSampleError if the bound set consists of near copies of the other examples.

    Args:
        x: features of all examples.
        own, bound: indices of the prior's part and of the bound set.
        repeats: only remark on near copies.
        others, remedy: the other examples, and what to do about copies of them, in words.
    """
    near = near_copies(x, own, bound)
    says = f"{100 * near:.0f} % of the bound set are near copies of {others}"
    if near > NEAR and not repeats:
        raise NoSampleError(
            f"{says} (at most {100 * NEAR:.0f} % are allowed), so they are not independent; "
            f"{remedy}"
        )
    return [says] if near > _REMARKABLE else []


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


def check_examples(
    X: Any,
    y: Array,
    groups: Array | None,
    split: Split,
    *,
    repeats: bool,
    deduplicated: bool,
) -> None:
    """Raise NoSampleError if there are copies that were neither declared natural nor removed."""
    check_copies(X, y, groups, repeats=repeats or deduplicated)
    check_near_copies(X, split, repeats=repeats)


def check_copies(X: Any, y: Array, groups: Array | None = None, *, repeats: bool) -> None:
    """Raise NoSampleError if examples are repeated or, where they are numbers, scaled to fit.

    The rule is that for runs: at most 10 % of the examples may be copies of others, label included,
    and 1 % may be copies with a value in a column that has a different one in most rows. Three are
    always allowed.

    Args:
        groups: label of each example's group; copies within a group do not count.
        repeats: allow copies.
    """
    if not repeats:
        keys, rare = _keys(X, y), _distinctive(X, len(y))
        members = [0] * len(y) if groups is None else groups.tolist()
        for chosen, discrete in ((rare, False), (np.ones(len(y), bool), True)):
            rows = [(keys[i], members[i]) for i in np.flatnonzero(chosen)]
            again = _copies(rows, grouped=groups is not None)
            refuse_repeats(again, len(y), discrete=discrete, remedy=_EXACT_IN_MEMORY)
    if (numbers := finite_numbers(X)) is not None:
        check_sample(numbers, y, repeats=True)


def _copies(rows: list[tuple[Hashable, Any]], *, grouped: bool) -> int:
    """Return the number of rows, or of different rows of groups, that are there already."""
    return len(set(rows) if grouped else rows) - len({key for key, _ in rows})


def first_of_each(X: Any, y: Array) -> Array:
    """Return the indices of the examples that copy no earlier one, label included."""
    firsts = dict(zip(reversed(_keys(X, y)), reversed(range(len(y))), strict=True))
    return np.sort(np.fromiter(firsts.values(), np.int64))


def check_near_copies(X: Any, split: Split, *, repeats: bool) -> None:
    """Raise NoSampleError if the bound set consists of near copies of the other examples.

    Distances are between the numbers that differ in most rows or, where no column has such, between
    all numbers. Categories do not count, as they make a table far from a smooth density. Texts and
    sparse matrices are not looked at. Of a large bound set, `near_copies` takes every so many.
    """
    if repeats or not is_table(X):
        return
    if (table := _measured(X, split.own)) is not None:
        how = {"others": "other examples", "remedy": _NEAR_IN_MEMORY}
        check_split(table, split.own, split.bound, repeats=False, **how)


def _measured(X: Any, own: Array) -> Array | None:
    """Return the numbers between which distances are measured, (n, d); the array itself if all."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        varied = _varied(X)
        chosen = X[:, varied] if varied and len(varied) < X.shape[1] else X
        if finite_columns(chosen).all():
            return chosen
        columns = list(chosen.T.astype(np.float64))
    else:
        every = [numbers for c in columns_of(X) if (numbers := numbers_of(c)) is not None]
        columns = [c for c in every if _differs_mostly(c)] or every
    return np.stack([_filled(c, own) for c in columns], axis=1) if columns else None


def _filled(column: Array, own: Array) -> Array:
    """Return a column with the median of its own examples for missing numbers."""
    known = column[own][np.isfinite(column[own])]
    return np.where(np.isfinite(column), column, np.median(known) if len(known) else 0.0)


def _varied(table: Array) -> list[int]:
    """Return the columns of numbers that have a different value in most rows.

    A column whose numbers repeat much among some rows, drawn at random, is not looked at in whole.
    """
    n = len(table)
    few = table[np.random.default_rng(0).choice(n, min(n, _SOME), replace=False)]
    likely = [j for j in range(table.shape[1]) if _differs_mostly(few[:, j], _LIKELY)]
    return [j for j in likely if _differs_mostly(table[:, j])]


def _differs_mostly(column: Array, share: float = 0.5) -> bool:
    """Return whether more than a share of a column's numbers are different ones."""
    return len(np.unique(column[np.isfinite(column)])) > share * len(column)


def _keys(X: Any, y: Array) -> list[Hashable]:
    """Return something for each example that is equal for copies alone."""
    return list(zip(row_keys(X), map(str, y.tolist()), strict=True))


def _distinctive(X: Any, n: int) -> Array:
    """Return whether each row has a value in a column with a different value in most rows."""
    if not is_table(X):  # texts, sparse matrices
        return np.ones(n, bool)
    found = np.zeros(n, bool)
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        for j in _varied(X):
            found |= ~np.isnan(X[:, j])
        return found
    for column in columns_of(X):
        there = np.array([not is_missing(value) for value in column.tolist()], bool)
        if len(set(map(str, column[there].tolist()))) > n / 2:
            found |= there
    return found
