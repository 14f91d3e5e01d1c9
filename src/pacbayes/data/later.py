"""Files that come after the training set: test examples, and examples to predict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from pacbayes.data.arrays import check_width, read_arrays
from pacbayes.data.dataset import DataError, Labels
from pacbayes.data.frame import Column, Frame, Kind
from pacbayes.data.reading import is_table, read_frame

__all__ = ["by_position", "labels_of", "read_later", "unknown_suffix"]


def by_position(width: int) -> dict[str, Kind]:
    """Return the features of a training set whose columns are numbers without names."""
    return {str(i): Kind.NUMBER for i in range(width)}


def read_later(
    path: Path,
    kinds: Mapping[str, Kind],
    *,
    label: str | None = None,
    others: Collection[str] = (),
    in_order: bool = False,
) -> Frame:
    """Read a file with the features of the training set; columns are matched by name.

    Args:
        kinds: the features of the training set.
        label: label column of the training set; the file may lack it.
        others: columns of the training set that are neither features nor labels.
        in_order: the training set has no names, so that the order of columns counts.
    """
    if path.suffix == ".npz":
        return _of_arrays(path, kinds)
    if not is_table(path):
        raise unknown_suffix(path)
    return read_frame(path, label=label, drop=others, kinds=kinds, in_order=in_order)


def unknown_suffix(path: Path) -> DataError:
    """Return the error for a file of a kind that is not read."""
    return DataError(
        f"{path}: need a .csv, .tsv, .csv.gz, .parquet or .npz file, "
        f"got {path.suffix or 'no suffix'!r}"
    )


def _of_arrays(path: Path, kinds: Mapping[str, Kind]) -> Frame:
    """Return arrays as a table with the names of the training set, in order."""
    for name, kind in kinds.items():
        if kind is not Kind.NUMBER:
            raise DataError(
                f"{path}: arrays have numbers alone, but column {name!r} of the training set is a "
                f"{kind.value}; give a table"
            )
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
