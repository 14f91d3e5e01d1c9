"""Examples as arrays, checked once, and a hash of every bit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DataError", "Dataset", "Floats", "check_features", "class_indices"]

Floats = NDArray[np.float32]
MOST_CLASSES = 100  # beyond, a column of numbers was probably taken for labels


class DataError(ValueError):
    """Data that cannot be had or cannot be used."""


@dataclass(frozen=True)
class Dataset:
    """A training set, which is also the bound set, and a test set that may be empty.

    Attributes:
        x_train, x_test: features, (n, d), preprocessed without looking at them.
        y_train, y_test: class indices, (n,).
        classes: what the indices stand for.
        names: of the features, where they have any.
    """

    name: str
    x_train: Floats
    y_train: NDArray[np.int64]
    x_test: Floats
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for part, x, y in (
            ("training", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            check_features(x, f"{self.name}, {part} part")
            if len(x) != len(y):
                raise DataError(f"{self.name}, {part} part: {len(x)} examples, {len(y)} labels")
        if len(self.x_train) < 8:
            raise DataError(f"{self.name} has {len(self.x_train)} training examples, need 8")
        if len(self.x_test) and self.x_test.shape[1] != self.x_train.shape[1]:
            raise DataError(
                f"{self.name}: test examples have {self.x_test.shape[1]} features, "
                f"training examples {self.x_train.shape[1]}"
            )

    def signs(self, part: str = "train") -> Floats:
        """Labels −1/+1 of a two-class data set."""
        if len(self.classes) != 2:
            raise DataError(
                f"{self.name} has {len(self.classes)} classes ({', '.join(self.classes[:5])}…), "
                "but signs need exactly 2"
            )
        y = self.y_train if part == "train" else self.y_test
        return (2 * y - 1).astype(np.float32)

    def tensors(self, part: str = "train") -> tuple[Tensor, Tensor]:
        """Features, and labels as a network takes them: −1/+1, or indices of several classes."""
        import torch

        x, y = (self.x_train, self.y_train) if part == "train" else (self.x_test, self.y_test)
        labels = self.signs(part) if len(self.classes) == 2 else y
        return torch.from_numpy(x), torch.from_numpy(labels)

    @property
    def train_sha256(self) -> str:
        """Of the training features (float32) and class indices (int64), little-endian, in order."""
        hasher = hashlib.sha256(np.ascontiguousarray(self.x_train, dtype="<f4").tobytes())
        hasher.update(np.ascontiguousarray(self.y_train, dtype="<i8").tobytes())
        return hasher.hexdigest()


def check_features(x: Floats, where: str) -> None:
    """Refuse anything but a finite matrix, naming the first offending entry."""
    if x.ndim != 2 or x.shape[1] < 1:
        raise DataError(f"{where}: features must be a matrix (examples, features), got {x.shape}")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{where}: {x[row, column]} in example {row}, feature {column} (counting from 0); "
            "every feature must be a finite number"
        )


def class_indices(labels: NDArray[Any], where: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices and names of labels, in their order; of two classes the larger is +1."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError(f"{where}: a label is not a finite number")
    names, indices = np.unique(labels, return_inverse=True)
    if not 2 <= len(names) <= MOST_CLASSES:
        shown = ", ".join(map(str, names[:5])) + ("…" if len(names) > 5 else "")
        raise DataError(
            f"{where}: labels take {len(names)} values ({shown}), need 2 to {MOST_CLASSES}"
        )
    return indices.astype(np.int64), tuple(str(name) for name in names)
