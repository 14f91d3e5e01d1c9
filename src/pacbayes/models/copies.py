"""Copies of examples, exact and near, in tables of any kind.

A copy of an example of the bound set among those that candidates are fitted to reveals its label.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from hashlib import blake2b
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from pacbayes.data.dataset import blocks_of
from pacbayes.data.sample import NEAR, NoSampleError, check_sample, near_copies, refuse_repeats
from pacbayes.data.values import columns_of, is_framed, is_missing, numbers_of
from pacbayes.models.splitting import Split

__all__ = ["check_copies", "check_examples", "check_near_copies", "first_of_each"]

Array = NDArray[Any]
_BYTES = 16  # of the hash that stands for a row of numbers
_SOME, _LIKELY = 1000, 0.4  # rows that tell, but for a chance of 1e-9, that a column repeats much
_EXACT = (
    "remove them with deduplicate=True, give groups= if examples belong together, or declare that "
    "your data naturally repeat with repeats=True"
)
_NEAR = (
    "give groups= if examples belong together, one example of each otherwise, or declare that your "
    "data naturally repeat with repeats=True"
)


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
            refuse_repeats(again, len(y), discrete=discrete, remedy=_EXACT)
    if (numbers := _numbers(X)) is not None:
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
    if repeats or not _is_table(X):
        return
    if (table := _measured(X, split)) is None:
        return
    if (near := near_copies(table, split.own, split.bound)) > NEAR:
        raise NoSampleError(
            f"{100 * near:.0f} % of the bound set are near copies of other examples (at most "
            f"{100 * NEAR:.0f} % are allowed), so they are not independent; {_NEAR}"
        )


def _measured(X: Any, split: Split) -> Array | None:
    """Return the numbers between which distances are measured, (n, d); the array itself if all."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        varied = _varied(X)
        chosen = X[:, varied] if varied and len(varied) < X.shape[1] else X
        if _finite(chosen).all():
            return chosen
        columns = list(chosen.T.astype(np.float64))
    else:
        every = [numbers for c in columns_of(X) if (numbers := numbers_of(c)) is not None]
        columns = [c for c in every if _differs_mostly(c)] or every
    return np.stack([_filled(c, split.own) for c in columns], axis=1) if columns else None


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


def _finite(table: Array) -> Array:
    """Return whether all numbers of each column are finite."""
    parts = [np.isfinite(table[block]).all(axis=0) for block in blocks_of(table)]
    columns: Array = np.all(parts, axis=0)
    return columns


def _is_table(X: Any) -> bool:
    return is_framed(X) or (isinstance(X, np.ndarray) and X.ndim == 2)


def _numbers(X: Any) -> Array | None:
    """Return the columns of finite numbers, (n, d), or None; an array itself if all of them are."""
    if not _is_table(X):
        return None
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        finite = _finite(X) if X.size else np.zeros(0, bool)
        return (X if finite.all() else X[:, finite]) if finite.any() else None
    columns = (c for c in columns_of(X) if c.dtype.kind in "biuf")
    known = [c.astype(np.float64) for c in columns if np.isfinite(c).all()]
    return np.stack(known, axis=1) if known and len(known[0]) else None


def _keys(X: Any, y: Array) -> list[Hashable]:
    """Return something for each example that is equal for copies alone."""
    return list(zip(_rows(X), map(str, y.tolist()), strict=True))


def _rows(X: Any) -> Iterator[Hashable]:
    """Yield something hashable for each row of an array, data frame, sparse matrix or list."""
    if issparse(X):
        rows = X.tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        for start, end in pairwise(rows.indptr):
            yield rows.indices[start:end].tobytes(), rows.data[start:end].tobytes()
    elif (numbers := _all_numbers(X)) is not None:
        for block in blocks_of(numbers):
            plain = numbers[block].astype(np.float64, order="C") + 0.0  # −0 is 0
            plain[np.isnan(plain)] = np.nan  # which has many forms
            yield from (blake2b(row, digest_size=_BYTES).digest() for row in plain)
    elif is_framed(X):
        columns = (column.tolist() for column in columns_of(X))
        yield from (tuple(map(_cell, row)) for row in zip(*columns, strict=True))
    else:
        rows = (row.tolist() if hasattr(row, "tolist") else row for row in X)
        yield from (tuple(map(_cell, r)) if isinstance(r, list) else _cell(r) for r in rows)


def _all_numbers(X: Any) -> Array | None:
    """Return arrays and tensors of numbers, also of images, and frames of finite numbers alone."""
    if hasattr(X, "detach"):  # a tensor; numpy has no bfloat16
        X = X.detach().cpu()
        X = (X.float() if X.is_floating_point() and X.element_size() < 4 else X).numpy()
    if isinstance(X, np.ndarray):
        return X if X.ndim > 1 and X.dtype.kind in "biuf" else None
    numbers = _numbers(X)
    return numbers if numbers is not None and numbers.shape == X.shape else None


def _cell(value: Any) -> Hashable:
    """Return a value that is equal for equal cells: 1 is 1.0, −0 is 0, and NaN is missing."""
    if is_missing(value):
        return None
    return value if isinstance(value, str | Number) else repr(value)


def _distinctive(X: Any, n: int) -> Array:
    """Return whether each row has a value in a column with a different value in most rows."""
    if not _is_table(X):  # texts, sparse matrices
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
