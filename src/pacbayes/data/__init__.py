"""Data sets by name, or from a file of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pacbayes.data.dataset import DataError, Dataset, class_indices
from pacbayes.data.idx import FASHION_MNIST, MNIST, Collection, fetch
from pacbayes.data.tables import Table, check_names, check_width, read_table
from pacbayes.spelling import did_you_mean

__all__ = [
    "NAMES",
    "DataError",
    "Dataset",
    "Table",
    "check_names",
    "check_width",
    "load",
    "read_table",
]

NAMES = (
    *("binary-mnist", "mnist", "binary-fashion-mnist", "fashion-mnist"),
    *("digits", "ten-digits"),
)


def load(
    name: str,
    *,
    folder: Path | None = None,
    test: Path | None = None,
    label: str | None = None,
) -> Dataset:
    """A data set by name, or a user's .npz or .csv file by path.

    Args:
        folder: where IDX files may lie already.
        test: a file of test examples to go with one's own.
        label: label column of one's own CSV file.
    """
    binary = name.startswith("binary-")
    if name in ("binary-mnist", "mnist"):
        return _images(name, MNIST, folder, binary=binary)
    if name in ("binary-fashion-mnist", "fashion-mnist"):
        return _images(name, FASHION_MNIST, folder, binary=binary)
    if name in ("digits", "ten-digits"):
        return _digits(name)
    if Path(name).suffix not in (".npz", ".csv"):
        hint = did_you_mean(name, NAMES) or f"; give one of {', '.join(NAMES)} or a .npz/.csv file"
        raise DataError(f"no data set {name!r}{hint}")
    return _own(Path(name), test, label)


_HALVES = ("0-4", "5-9")
_TEN = tuple(str(d) for d in range(10))


def _images(name: str, collection: Collection, folder: Path | None, *, binary: bool) -> Dataset:
    """28×28 images scaled to [0, 1]; binary is classes 5–9 (+1) against 0–4 (−1)."""
    x_train, y_train, x_test, y_test = fetch(collection, folder)
    scaled = [
        (x.reshape(len(x), -1) / np.float32(255)).astype(np.float32) for x in (x_train, x_test)
    ]
    labels = [(y >= 5 if binary else y).astype(np.int64) for y in (y_train, y_test)]
    classes = _HALVES if binary else _TEN
    return Dataset(name, scaled[0], labels[0], scaled[1], labels[1], classes)


def _digits(name: str) -> Dataset:
    """scikit-learn's 1797 bundled 8×8 digits, 5–9 against 0–4 or all ten; every fifth is a test."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    classes = _HALVES if name == "digits" else _TEN
    x, labels = (x / 16).astype(np.float32), (y >= 5 if name == "digits" else y).astype(np.int64)
    test = np.arange(len(x)) % 5 == 4
    return Dataset(name, x[~test], labels[~test], x[test], labels[test], classes)


def _own(path: Path, test: Path | None, label: str | None) -> Dataset:
    table = read_table(path, label)
    if table.labels is None:
        raise DataError(f"{path}: no labels; an .npz file needs an array named y")
    if table.headless and table.labels[0] not in table.labels[1:]:
        raise DataError(
            f"{path}: the first row looks like a header, since its label "
            f"{str(table.labels[0])!r} occurs nowhere else; remove it, or give --label by name"
        )
    y, classes = class_indices(table.labels, str(path))
    width = table.x.shape[1]
    x_test, y_test = np.empty((0, width), np.float32), np.empty(0, np.int64)
    if test is not None:
        held_out = read_table(test, label)
        if held_out.labels is None:
            raise DataError(f"{test}: no labels")
        check_names(held_out.names, table.names, str(test))
        names = [str(v) for v in held_out.labels]
        if unknown := sorted(set(names) - set(classes)):
            raise DataError(f"{test}: label {unknown[0]!r} is not among {', '.join(classes)}")
        x_test, y_test = held_out.x, np.array([classes.index(v) for v in names], np.int64)
    return Dataset(str(path), table.x, y, x_test, y_test, classes, table.names)
