"""Your own data: .npz files with arrays x and y, or .csv files with a label column."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.csv_file import read_csv
from pacbayes.data.dataset import (
    DataError,
    Dataset,
    Floats,
    Labels,
    Table,
    check_features,
    class_indices,
)
from pacbayes.data.sizes import check_npz

__all__ = ["check_names", "check_width", "load_tables", "read_table"]


def load_tables(path: Path, test: Path | None = None, label: str | None = None) -> Dataset:
    """Make a data set of a file of training examples and, if given, a file of test examples."""
    table = read_table(path, label)
    labels = _labels(table, path)
    if table.headless and labels[0] not in labels[1:]:
        raise DataError(
            f"{path}: the first row looks like a header, since its label {str(labels[0])!r} occurs "
            "in no other row; remove the row, or name the label column with --label"
        )
    y, classes = class_indices(labels, str(path))
    x_test, y_test = np.empty((0, table.x.shape[1]), np.float32), np.empty(0, np.int64)
    if test is not None:
        x_test, y_test = _test_set(read_table(test, label), test, table, classes)
    return Dataset(str(path), table.x, y, x_test, y_test, classes, table.names)


def _test_set(
    table: Table, path: Path, training: Table, classes: tuple[str, ...]
) -> tuple[Floats, Labels]:
    check_names(table.names, training.names, str(path))
    names = [str(label) for label in _labels(table, path)]
    if unknown := sorted(set(names) - set(classes)):
        raise DataError(
            f"{path}: label {unknown[0]!r} is not among {', '.join(classes)}, "
            "the labels of the training set"
        )
    return table.x, np.array([classes.index(name) for name in names], np.int64)


def _labels(table: Table, path: Path) -> NDArray[Any]:
    if table.labels is None:
        raise DataError(f"{path}: no labels; add them as an array named y")
    return table.labels


def read_table(
    path: Path, label: str | None = None, width: int | None = None, usual: str | None = None
) -> Table:
    """Read a file of examples.

    Args:
        label: name or position (from 0) of the label column of a CSV file; the last by default.
        width: number of features the file must have. A CSV file with exactly that many columns,
            for which no label column is given, has no labels.
        usual: label column of the training file; this file may lack it.

    Raises:
        DataError: the file is missing, malformed, empty, or has entries that are not numbers.
    """
    _check_file(path)
    if path.suffix == ".npz":
        table, guessed = _read_npz(path), False
    else:
        table = read_csv(path, label, width, usual)
        guessed = label is None and table.labels is not None
    check_features(table.x, str(path))
    if width is not None:
        hint = "; the last column was taken for labels, which --label can change"
        check_width(table.x, width, str(path), hint if guessed else "")
    return table


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if path.suffix not in (".npz", ".csv"):
        raise DataError(f"{path}: need a .npz or .csv file, got {path.suffix or 'no suffix'!r}")


def check_width(x: Floats, width: int, where: str, hint: str = "") -> None:
    """Raise DataError unless the examples have as many features as the network takes."""
    if x.shape[1] != width:
        raise DataError(f"{where}: {x.shape[1]} features, but the network takes {width}{hint}")


def check_names(
    names: tuple[str, ...] | None, expected: tuple[str, ...] | None, where: str
) -> None:
    """Raise DataError if both files have feature names, and these differ or change places."""
    for found, wanted in zip(names or (), expected or (), strict=False):
        if found != wanted:
            raise DataError(
                f"{where}: column {found!r} where the training set has {wanted!r}; "
                "give the same columns in the same order"
            )


def _read_npz(path: Path) -> Table:
    arrays = _load_arrays(path)
    if "x" not in arrays:
        raise DataError(f"{path}: no array named x; save features as x and labels as y")
    x, labels = arrays["x"], arrays.get("y")
    _check_numbers(path, x)
    if labels is not None and labels.shape != (len(x),):
        raise DataError(f"{path}: y must have shape ({len(x)},), got {labels.shape}")
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
        return Table(np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32), labels)


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        check_npz(path, ("x", "y"))
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name in ("x", "y")}
    except DataError:
        raise
    except (ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a readable .npz file ({error})") from error


def _check_numbers(path: Path, x: NDArray[Any]) -> None:
    if x.dtype.kind not in "biuf":
        raise DataError(f"{path}: x must hold numbers, got {x.dtype}")
    if x.ndim == 0 or len(x) == 0:
        raise DataError(f"{path}: no examples; x has shape {x.shape}")
