"""Examples as arrays, checked once, and a hash of every bit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.sample import check_sample, check_split, first_of_each
from pacbayes.data.values import blocks_of

if TYPE_CHECKING:
    from torch import Tensor

    from pacbayes.data.encoding import Encoding
    from pacbayes.data.frame import Frame

__all__ = [
    "DataError",
    "Dataset",
    "Examples",
    "Finer",
    "Floats",
    "Labels",
    "Table",
    "check_classes",
    "check_count",
    "check_features",
    "class_indices",
    "classes_of",
    "first_of_each",
    "rows_sha256",
]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
LEAST_EXAMPLES = 8  # the smallest training set that the bounds accept
MOST_CLASSES = 100  # with more, a column of numbers was probably taken for labels


class DataError(ValueError):
    """Raised when data cannot be obtained or cannot be used."""


@dataclass(frozen=True)
class Table:
    """The contents of one file of arrays.

    Attributes:
        x: features, (n, d).
        labels: labels as the file has them, (n,), or None if it has no labels.
        shape: shape of an example in the file, such as (channels, height, width).
    """

    x: Floats
    labels: NDArray[Any] | None
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finer:
    """Finer classes than the labels, which a prior may learn.

    Attributes:
        labels: finer class of each training example, (n,).
        groups: the class that each finer class belongs to.
    """

    labels: Labels
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Examples:
    """What is computed once of training examples, whoever asks: their hash, split and check.

    A copy that differs in anything computes them again.
    """

    _kept: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, what: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what is kept under a name; compute it if nothing is."""
        if what not in self._kept:
            self._kept[what] = compute()
        return self._kept[what]

    def split(self, fraction: float, seed: int) -> tuple[Labels, Labels]:
        """Return the indices of the prior's examples and of the bound set."""
        from pacbayes.data.splitting import split

        own: Any = self  # a data set, or tables
        drawn = self.once(
            ("split", fraction, seed), lambda: split(len(own.y_train), fraction, seed, own.groups)
        )
        return drawn[0], drawn[1]


@dataclass(frozen=True)
class Dataset(Examples):
    """A training set, which is also the bound set, and a test set that may be empty.

    Attributes:
        x_train, x_test: features, (n, d); their preprocessing must not depend on them.
        y_train, y_test: class indices, (n,).
        classes: class names, in the order of the indices.
        names: feature names, if there are any.
        rows: the training examples as they came, if they are rows of a table.
        encoding: how the features were computed from such rows.
        shape: shape of an example before it became a row, such as (channels, height, width).
        finer: finer classes of the training examples, if they are known.
    """

    name: str
    x_train: Floats
    y_train: Labels
    x_test: Floats
    y_test: Labels
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None
    rows: Frame | None = None
    encoding: Encoding | None = None
    shape: tuple[int, ...] | None = None
    finer: Finer | None = None

    def __post_init__(self) -> None:
        _check_part(self.x_train, self.y_train, f"{self.name}, training set")
        _check_part(self.x_test, self.y_test, f"{self.name}, test set")
        check_count(len(self.x_train), self.name)
        if len(self.x_test) and self.x_test.shape[1] != self.x_train.shape[1]:
            raise DataError(
                f"{self.name}: test examples have {self.x_test.shape[1]} features, but "
                f"training examples have {self.x_train.shape[1]}; both need the same columns"
            )

    def signs(self, part: str = "train") -> Floats:
        """Return the labels of a two-class data set as −1 and +1."""
        if len(self.classes) != 2:
            raise DataError(
                f"{self.name} has {len(self.classes)} classes ({', '.join(self.classes[:5])}…), "
                "but labels -1 and +1 need exactly 2"
            )
        y = self.y_train if part == "train" else self.y_test
        return (2 * y - 1).astype(np.float32)

    def tensors(self, part: str = "train") -> tuple[Tensor, Tensor]:
        """Return features and labels for a network: −1/+1 for two classes, indices for more."""
        import torch

        from pacbayes.data.tasks import task_of

        x, y = (self.x_train, self.y_train) if part == "train" else (self.x_test, self.y_test)
        labels = task_of(len(self.classes)).encode(torch.from_numpy(y))
        return torch.from_numpy(x), labels

    @property
    def groups(self) -> NDArray[np.int32] | None:
        """The group of each training example, if examples belong together."""
        return None if self.rows is None or self.rows.group is None else self.rows.group.values

    @property
    def as_they_came(self) -> Floats:
        """The training examples in numbers, before any preprocessing, to look for copies in."""
        return self.x_train if self.rows is None else self.rows.as_numbers()

    @property
    def continuous(self) -> Floats:
        """The training examples as they came, to look for near copies in."""
        return self.x_train if self.rows is None else self.rows.continuous()

    def images(self, part: str = "train") -> tuple[Tensor, Tensor]:
        """Return the same with examples in their own shape, such as (channels, height, width)."""
        x, y = self.tensors(part)
        return x.view(len(x), *(self.shape or x.shape[1:])), y

    def deduplicated(self) -> Dataset:
        """Return the data set with the first of training examples that are the same."""
        kept = first_of_each(self.x_train, self.y_train)
        finer = self.finer and replace(self.finer, labels=self.finer.labels[kept])
        x, y = self.x_train[kept], self.y_train[kept]
        return replace(self, x_train=x, y_train=y, finer=finer)

    @property
    def train_sha256(self) -> str:
        """Hash of the training examples as they came; for arrays and tables of plain numbers:
        features (float32), then class indices (int64), little-endian.
        """
        found: str = self.once("sha256", self._sha256)
        return found

    def _sha256(self) -> str:
        if self.rows is None:
            return _arrays_sha256(self.x_train, self.y_train)
        return rows_sha256(self.rows, self.y_train)

    def remarks(self, fraction: float, seed: int, *, repeats: bool) -> list[str]:
        """Refuse examples that are not an independent sample; return remarks on unusual ones.

        Args:
            fraction: of the examples that the prior learns from; 0 without any.
            seed: of the split.
            repeats: copies are natural.
        """

        def check() -> list[str]:
            x, y = self.as_they_came, self.y_train
            found = check_sample(x, y, repeats=repeats, groups=self.groups)
            if fraction:
                own, bound = self.split(fraction, seed)
                found += check_split(self.continuous, own, bound, repeats=repeats)
            return found

        remarks: list[str] = self.once(("sample", fraction, seed, repeats), check)
        return list(remarks)


def rows_sha256(rows: Frame, y: Labels) -> str:
    """Return the hash of a table: as of arrays if it has numbers alone, and of all cells if not."""
    if rows.numbers is not None and rows.plain and rows.group is None:
        return _arrays_sha256(rows.numbers, y)
    return rows.sha256


def _arrays_sha256(x: Floats, y: Labels) -> str:
    hasher = hashlib.sha256()
    for array, kind in ((x, "<f4"), (y, "<i8")):
        for block in blocks_of(array):
            hasher.update(np.ascontiguousarray(array[block], dtype=kind).data.cast("B"))
    return hasher.hexdigest()


def _check_part(x: Floats, y: Labels, where: str) -> None:
    check_features(x, where)
    if len(x) != len(y):
        raise DataError(
            f"{where}: {len(x)} examples but {len(y)} labels; each example needs one label"
        )


def check_count(n: int, where: str) -> None:
    """Raise DataError if there are too few training examples for any bound."""
    if n < LEAST_EXAMPLES:
        raise DataError(f"{where} has {n} training examples; at least {LEAST_EXAMPLES} are needed")


def check_features(x: Floats, where: str) -> None:
    """Raise DataError unless x is a finite matrix; name the first offending entry."""
    if x.ndim != 2 or x.shape[1] < 1:
        raise DataError(f"{where}: features must be a matrix (examples, features), got {x.shape}")
    for block in blocks_of(x):
        for i, column in np.argwhere(~np.isfinite(x[block]))[:1]:
            row = block.start + i
            raise DataError(
                f"{where}: {x[row, column]} in example {row}, feature {column} (counting from 0); "
                "every feature must be a finite float32 number"
            )


def class_indices(labels: NDArray[Any], where: str) -> tuple[Labels, tuple[str, ...]]:
    """Return class indices and class names in sorted order; the larger of two classes is +1."""
    if labels.dtype.kind == "f":
        _check_finite(labels, where)
    names, indices = np.unique(labels, return_inverse=True)
    check_classes(names, where)
    return indices.astype(np.int64), tuple(str(name) for name in names)


def check_classes(names: Sequence[Any] | NDArray[Any], where: str) -> None:
    """Raise DataError unless there are at least two classes, not too many, all of them texts."""
    for name in map(str, names):
        if not encodable(name):
            raise DataError(f"{where}: the label {name!r} is not valid text; rename it")
    if not 2 <= len(names) <= MOST_CLASSES:
        shown = ", ".join(map(str, names[:5])) + ("…" if len(names) > 5 else "")
        raise DataError(
            f"{where}: the labels have {len(names)} different values ({shown}), "
            f"but 2 to {MOST_CLASSES} classes are needed"
        )


def encodable(text: str) -> bool:
    """Return whether a text can be written to a file in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_finite(labels: NDArray[Any], where: str) -> None:
    finite = np.isfinite(labels)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise DataError(
            f"{where}: the label of example {bad} (counting from 0) is {labels[bad]}, "
            "which is not a finite number"
        )


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the labels that occur, in order, and the index of each example's label among them.

    Raises:
        ValueError: labels have no order, or one is a text that no file can hold.
    """
    try:
        classes, index = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(f"labels must be all texts or all numbers, got {kinds}") from None
    for label in classes.tolist():
        if isinstance(label, str) and not encodable(label):
            raise ValueError(f"label {label!r} is not valid Unicode text; rename this class")
    return classes, index
