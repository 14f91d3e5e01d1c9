"""Rows that come after the training set, from a file or from memory, matched to its columns.

Whatever predicts later rows reads them here, so that a row gets the same answer from the shell and
from Python, in whatever container it comes, or is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.arrays import check_width, read_arrays
from pacbayes.data.cells import TRUTH, is_number
from pacbayes.data.dataset import DataError, Labels
from pacbayes.data.frame import MISSING_CODE, Column, Frame, Kind
from pacbayes.data.reading import column_names, is_table, read_frame
from pacbayes.data.values import is_framed

__all__ = [
    "are_dicts",
    "as_array",
    "by_position",
    "in_training",
    "labels_of",
    "read_later",
    "read_matched",
    "spellings_of",
    "unknown_suffix",
]

_ROWS = "the rows"  # in memory, for messages


def by_position(width: int) -> dict[str, Kind]:
    """Return the features of a training set whose columns are numbers without names."""
    return {str(i): Kind.NUMBER for i in range(width)}


def read_matched(
    source: Any,
    kinds: Mapping[str, Kind],
    spellings: Mapping[str, Sequence[str]] | None,
    **how: Any,
) -> Frame:
    """Read rows to predict: columns matched by name, and values by what they mean.

    A library that reads a column of texts as numbers or truth values changes how they are written:
    1 becomes 1.0, and True true. Such a value is the category that means the same, or is refused.
    For a truth value, 0 and 1 do too.

    Args:
        source: a file, or rows in memory; see `read_later`.
        spellings: categories of the training set that are written as numbers or truth values, by
            column; see `spellings_of`. None if they are not known.
        how: other arguments of `read_later`.

    Raises:
        DataError: a column is missing, or a value in it is of another kind.
    """
    frame = read_later(source, kinds, **how)
    where = str(source) if isinstance(source, str | Path) else _ROWS
    columns = []
    for column in frame.columns:
        known = None if spellings is None else spellings.get(column.name, ())
        if not column.kind.numeric:
            column = _respelled(column, kinds[column.name], known, where)
        columns.append(column)
    return replace(frame, columns=tuple(columns))


def spellings_of(categories: Iterable[str]) -> tuple[str, ...]:
    """Return the categories that are written as numbers or truth values."""
    return tuple(word for word in categories if is_number(word) or word.lower() in TRUTH)


def read_later(
    source: Any,
    kinds: Mapping[str, Kind],
    *,
    label: str | None = None,
    others: Collection[str] = (),
    in_order: bool = False,
    dtype: type[np.floating[Any]] = np.float32,
) -> Frame:
    """Read rows with the features of the training set; columns are matched by name.

    Other columns are left out. Rows without names (arrays, lists of rows) are taken in the order of
    the training set where that had no names either, or where all of its features are numbers.

    Args:
        source: a file (.csv, .tsv, .csv.gz, .parquet or .npz), a data frame (pandas, polars,
            Arrow), a list of dicts, a list of rows, or an array.
        kinds: the features of the training set.
        label: label column of the training set; the source may lack it.
        others: columns of the training set that are neither features nor labels.
        in_order: the training set has no names, so that the order of columns counts.
        dtype: of numbers.
    """
    if not isinstance(source, str | Path):
        return _in_memory(source, kinds, in_order=in_order, dtype=dtype)
    path = Path(source)
    if path.suffix == ".npz":
        return _of_arrays(path, kinds)
    if not is_table(path):
        raise unknown_suffix(path)
    return read_frame(path, label=label, drop=others, kinds=kinds, in_order=in_order, dtype=dtype)


def unknown_suffix(path: Path) -> DataError:
    """Return the error for a file of a kind that is not read."""
    return DataError(
        f"{path}: need a .csv, .tsv, .csv.gz, .parquet or .npz file, "
        f"got {path.suffix or 'no suffix'!r}"
    )


def _of_arrays(path: Path, kinds: Mapping[str, Kind]) -> Frame:
    """Return arrays as a table with the names of the training set, in order."""
    _check_all_numbers(kinds, str(path))
    table = read_arrays(path)
    check_width(table.x, len(kinds), str(path))
    columns = tuple(
        Column(name, Kind.NUMBER, values) for name, values in zip(kinds, table.x.T, strict=True)
    )
    if table.labels is None:
        return Frame(columns, numbers=table.x)
    names, codes = np.unique(np.array(list(map(str, table.labels))), return_inverse=True)
    label = Column("y", Kind.CATEGORY, codes.astype(np.int32), tuple(map(str, names)))
    return Frame(columns, label, numbers=table.x)


def _check_all_numbers(kinds: Mapping[str, Kind], where: str) -> None:
    for name, kind in kinds.items():
        if kind is not Kind.NUMBER:
            raise DataError(
                f"{where}: arrays have numbers alone, but column {name!r} of the training set is a "
                f"{kind.value}; give a table"
            )


def _in_memory(source: Any, kinds: Mapping[str, Kind], *, in_order: bool, dtype: Any) -> Frame:
    import pyarrow as pa

    if is_framed(source):
        if in_order and len(kinds) != len(names := column_names(source)):
            raise _another_width(len(names), len(kinds))
        return read_frame(source, kinds=kinds, in_order=in_order, dtype=dtype)
    if are_dicts(source):
        columns = [_named(source, name) for name in kinds]
    else:
        if not in_order:
            _check_all_numbers(kinds, _ROWS)
        rows = as_array(source)
        if rows.ndim != 2:
            raise DataError(f"{_ROWS}: need rows and columns, got an array of shape {rows.shape}")
        if rows.shape[1] != len(kinds):
            raise _another_width(rows.shape[1], len(kinds))
        columns = list(rows.T)
    arrays = {}
    for name, column in zip(kinds, columns, strict=True):
        try:
            arrays[name] = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{_ROWS}: column {name!r} has values of several kinds") from error
    return read_frame(pa.table(arrays), kinds=kinds, dtype=dtype)


def are_dicts(rows: Any) -> bool:
    """Tell whether rows are a list of dicts, with the names of columns."""
    return isinstance(rows, Sequence) and len(rows) > 0 and isinstance(rows[0], Mapping)


def as_array(rows: Any) -> NDArray[Any]:
    """Return rows of cells as an array; of objects where their types differ."""
    try:
        found = np.asarray(rows)
        return found if found.dtype.kind in "biufc" else np.array(rows, dtype=object)
    except ValueError as error:
        raise DataError(f"{_ROWS}: they differ in length") from error


def _named(rows: Sequence[Any], name: str) -> list[Any]:
    for i, row in enumerate(rows):
        if name not in row:
            raise DataError(f"{_ROWS}: row {i} has no {name!r}; give None if it is missing")
    return [row[name] for row in rows]


def _another_width(found: int, width: int) -> DataError:
    return DataError(f"{_ROWS}: {found} columns, but the training set has {width} features")


def _respelled(column: Column, kind: Kind, known: Sequence[str] | None, where: str) -> Column:
    """Return a column whose categories are written as in the training set."""
    try:
        words = [in_training(word, kind, known) for word in column.categories]
    except ValueError as error:
        raise DataError(f"{where}: column {column.name!r}: {error}") from None
    if words == list(column.categories):
        return column
    categories = tuple(sorted(set(words)))
    places = np.array([*map(categories.index, words), MISSING_CODE], np.int32)
    return replace(column, values=places[column.values], categories=categories)


def in_training(word: str, kind: Kind, known: Sequence[str] | None) -> str:
    """Return how the training set writes a value; an unknown category stays as it is.

    Raises:
        ValueError: the training set has nothing of its kind, or two that mean the same.
    """
    if kind is Kind.BOOLEAN:
        if not is_number(word):
            return word
        if float(word) not in (0, 1):
            raise ValueError(f"{word!r} is a number, but the training set has truth values")
        return "true" if float(word) else "false"
    if known is None or word in known:
        return word
    if word.lower() in ("true", "false"):
        same = [other for other in known if TRUTH.get(other.lower()) is TRUTH[word.lower()]]
    elif is_number(word):
        numbers = [other for other in known if is_number(other)]
        if not numbers:
            raise ValueError(f"{word!r} is a number, but the training set has other texts")
        same = [other for other in numbers if float(other) == float(word)]
    else:
        return word
    if len(same) > 1:
        raise ValueError(f"{word!r} may be {' or '.join(map(repr, same))}; give texts")
    return same[0] if same else word


def labels_of(frame: Frame, classes: tuple[str, ...], where: str) -> Labels:
    """Return class indices; raise DataError if a label is not one of the training set."""
    if frame.label is None:
        raise DataError(f"{where}: no labels; add the labels that the training set has")
    found = frame.label.categories
    if unknown := sorted(set(found) - set(classes)):
        raise DataError(
            f"{where}: label {unknown[0]!r} is not among {', '.join(classes)}, "
            "the labels of the training set"
        )
    index = np.array([classes.index(word) for word in found], np.int64)
    own: Labels = index[frame.label.values]
    return own
