"""The data sets that can be loaded by name: one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data import cifar
from pacbayes.data.dataset import DataError, Dataset, Finer, Floats, Labels
from pacbayes.data.idx import FASHION_MNIST, MNIST, Collection, fetch
from pacbayes.spelling import did_you_mean

__all__ = ["DATASETS", "NAMES", "NamedDataset", "load_named", "unknown_name"]

Arrays = tuple[Floats, Labels, Floats, Labels]  # x_train, y_train, x_test, y_test


@dataclass(frozen=True)
class NamedDataset:
    """How to load one data set of ten classes, and what it holds.

    Attributes:
        read: take a folder or None, return the arrays with labels 0 to 9.
        classes: the ten class names, or two: classes 0–4 (−1) against 5–9 (+1).
        takes_folder: whether its files may be given in a folder.
        shape: of an image: channels, height and width.
    """

    read: Callable[[Path | None], Arrays]
    classes: tuple[str, ...]
    takes_folder: bool
    shape: tuple[int, int, int]

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.classes) == 2

    def labels(self, y: Labels) -> Labels:
        """Return the class indices that belong to labels 0 to 9."""
        return np.array(_HALF_OF)[y] if self.binary else y


def load_named(name: str, folder: Path | None = None) -> Dataset:
    """Load a data set of the table; `folder` may hold its files."""
    known = DATASETS[name]
    x_train, y_train, x_test, y_test = known.read(folder)
    return Dataset(
        name,
        x_train,
        known.labels(y_train),
        x_test,
        known.labels(y_test),
        known.classes,
        shape=known.shape,
        finer=Finer(y_train, _HALF_OF) if known.binary else None,
    )


def unknown_name(name: str) -> DataError:
    """Return the error for a name that is neither in the table nor a file's."""
    hint = (
        did_you_mean(name, NAMES)
        or f"; give one of {', '.join(NAMES)} or a .csv, .parquet or .npz file"
    )
    return DataError(f"no data set {name!r}{hint}")


def _read_images(collection: Collection, folder: Path | None) -> Arrays:
    """28×28 images, scaled to [0, 1]."""
    return _scaled(fetch(collection, folder))


def _read_cifar10(folder: Path | None) -> Arrays:
    """32×32 images in three colours, scaled to [0, 1]."""
    return _scaled(cifar.fetch_cifar10(folder))


def _scaled(arrays: list[NDArray[np.uint8]]) -> Arrays:
    x_train, y_train, x_test, y_test = arrays
    x = [(x.reshape(len(x), -1) / np.float32(255)).astype(np.float32) for x in (x_train, x_test)]
    return x[0], y_train.astype(np.int64), x[1], y_test.astype(np.int64)


def _read_digits(_: Path | None) -> Arrays:
    """scikit-learn's 1797 8×8 digits, scaled to [0, 1]; every fifth is a test example.

    The file is scikit-learn's own, kept here so that `verify` needs no scikit-learn.
    """
    table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), np.uint8, delimiter=",")
    x, y = (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int64)
    test = np.arange(len(x)) % 5 == 4
    return x[~test], y[~test], x[test], y[test]


_HALVES = ("0-4", "5-9")
_HALF_OF = (0,) * 5 + (1,) * 5
_TEN = tuple(str(digit) for digit in range(10))
_MNIST = (1, 28, 28)
_mnist, _fashion = partial(_read_images, MNIST), partial(_read_images, FASHION_MNIST)

DATASETS = {
    "binary-mnist": NamedDataset(_mnist, _HALVES, takes_folder=True, shape=_MNIST),
    "mnist": NamedDataset(_mnist, _TEN, takes_folder=True, shape=_MNIST),
    "binary-fashion-mnist": NamedDataset(_fashion, _HALVES, takes_folder=True, shape=_MNIST),
    "fashion-mnist": NamedDataset(_fashion, _TEN, takes_folder=True, shape=_MNIST),
    "digits": NamedDataset(_read_digits, _HALVES, takes_folder=False, shape=(1, 8, 8)),
    "ten-digits": NamedDataset(_read_digits, _TEN, takes_folder=False, shape=(1, 8, 8)),
    "cifar-10": NamedDataset(_read_cifar10, cifar.CLASSES, takes_folder=True, shape=cifar.SHAPE),
}
NAMES = tuple(DATASETS)
