"""Encodings that are fitted to the prior's rows alone.

A certificate needs features that do not depend on the bound set, so every constant of an encoding
is a function of the rows that `fit_encoding` is given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.cells import TRUTH, truth_words
from pacbayes.data.dataset import DataError
from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.data.frame import Column, Frame, Kind

__all__ = ["fit_encoding", "plain_encoding"]

LEAST, MOST = 5, 50  # rows of a category that is not rare, and number of such categories


def plain_encoding(frame: Frame, where: str = "the table") -> Encoding:
    """Return the encoding that changes nothing, for a prior that has no rows of its own.

    Raises:
        DataError: a column has categories or missing values, which must be fitted to something.
    """
    for column in frame.columns:
        if column.kind is Kind.CATEGORY:
            raise _unfitted(where, column, "categories")
        if column.missing.any():
            raise _unfitted(where, column, "missing values")
    kinds: dict[Kind, Any] = {Kind.NUMBER: NumberCode, Kind.BOOLEAN: BooleanCode}
    return Encoding(columns=tuple(kinds[column.kind](name=column.name) for column in frame.columns))


def _unfitted(where: str, column: Column, what: str) -> DataError:
    return DataError(
        f"{where}: column {column.name!r} has {what}, whose encoding must not be fitted to the "
        f"bound set; give the prior a part of the data with --prior-fraction 0.5, or leave "
        f"the column out with --drop {column.name}"
    )


def fit_encoding(
    frame: Frame, rows: Sequence[int] | NDArray[np.int64], *, least: int = LEAST, most: int = MOST
) -> Encoding:
    """Return an encoding that depends on the given rows alone: those of the prior.

    Args:
        least: a category that occurs in fewer of these rows is rare.
        most: number of categories of a column that are not rare; the most frequent are kept.

    Raises:
        DataError: there are no rows, or a column has no value in them.
    """
    own = frame.take(rows)
    if not len(own):
        raise DataError("an encoding is fitted to the prior's rows, but there are none")
    codes = [
        _fit_number(column) if column.kind is Kind.NUMBER else _fit_texts(column, least, most)
        for column in own.columns
    ]
    return Encoding(columns=tuple(codes))


def _fit_number(column: Column) -> NumberCode:
    """Fit the median, then mean and standard deviation (of all rows, the missing ones filled)."""
    absent = column.missing
    _check_some(column, absent)
    values = column.values.astype(np.float64)
    fill = float(np.median(values[~absent]))
    x = np.where(absent, fill, values)
    mean = math.fsum(x.tolist()) / len(x)  # rounded once, whatever the order of the sum
    scale = math.sqrt(math.fsum(((x - mean) ** 2).tolist()) / len(x))
    constant = bool((x == x[0]).all())
    return NumberCode(
        name=column.name,
        fill=fill,
        mean=mean,
        scale=1.0 if constant else scale,
        missing=bool(absent.any()),
    )


def _fit_texts(column: Column, least: int, most: int) -> BooleanCode | CategoryCode:
    """Fit truth values or categories: what the column has in other rows does not count."""
    absent = column.missing
    _check_some(column, absent)
    counts = Counter(column.texts()[~absent].tolist())
    missing = bool(absent.any())
    if truth_words(list(counts)):
        true = sum(count for word, count in counts.items() if TRUTH[word.lower()])
        return BooleanCode(name=column.name, fill=2 * true > counts.total(), missing=missing)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    kept = {word for word in ranked[:most] if counts[word] >= least}
    return CategoryCode(
        name=column.name,
        categories=tuple(sorted(kept)),
        rare=tuple(sorted(counts.keys() - kept)),
        missing=missing,
    )


def _check_some(column: Column, absent: NDArray[np.bool_]) -> None:
    if absent.all():
        raise DataError(
            f"column {column.name!r} has no value in the prior's part of the data; "
            f"leave it out with --drop {column.name}"
        )
