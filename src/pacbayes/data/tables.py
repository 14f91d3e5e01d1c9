"""Your own tables: examples as rows of typed columns, before and after features are computed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.arrays import read_arrays
from pacbayes.data.dataset import (
    DataError,
    Dataset,
    Labels,
    check_classes,
    check_count,
    class_indices,
    first_of_each,
    rows_sha256,
)
from pacbayes.data.encoding import Encoding
from pacbayes.data.fitting import fit_encoding, plain_encoding
from pacbayes.data.frame import Frame
from pacbayes.data.later import by_position, labels_of, read_later
from pacbayes.data.reading import read_frame

__all__ = ["Tables", "load_arrays", "load_tables"]


@dataclass(frozen=True)
class Tables:
    """A table of training examples, and one of test examples that may be empty.

    Which features a network sees is decided later, by an encoding: one that changes nothing, or one
    that is fitted to the prior's rows.

    Attributes:
        train, test: the rows as they are.
        y_train, y_test: class indices, (n,).
        classes: class names, in the order of the indices.
    """

    name: str
    train: Frame
    y_train: Labels
    classes: tuple[str, ...]
    test: Frame | None = None
    y_test: Labels = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.train)

    @property
    def groups(self) -> NDArray[np.int32] | None:
        """The group of each training example, if examples belong together."""
        return None if self.train.group is None else self.train.group.values

    @property
    def train_sha256(self) -> str:
        """Hash of the training examples as they came; see `Dataset.train_sha256`."""
        return rows_sha256(self.train, self.y_train)

    def deduplicated(self) -> Tables:
        """Return the tables with the first of training examples that are the same."""
        kept = first_of_each(self.train.as_numbers(), self.y_train)
        return replace(self, train=self.train.take(kept), y_train=self.y_train[kept])

    def plain(self) -> Dataset:
        """Return the data set of the columns as they are.

        Raises:
            DataError: a column has categories or missing values, which must be fitted to something.
        """
        return self.encoded(plain_encoding(self.train, self.name))

    def fitted(self, rows: Sequence[int] | NDArray[np.int64]) -> Dataset:
        """Return the data set of standardised and encoded columns, fitted to some rows alone."""
        return self.encoded(fit_encoding(self.train, rows))

    def encoded(self, encoding: Encoding) -> Dataset:
        """Return the data set of features that an encoding computes."""
        x = encoding.apply(self.train, self.name)
        x_test = np.empty((0, x.shape[1]), np.float32)
        if self.test is not None:
            x_test = encoding.apply(self.test, f"{self.name}, test set")
        names = None if self.train.headless else encoding.names
        return Dataset(
            self.name,
            x,
            self.y_train,
            x_test,
            self.y_test,
            self.classes,
            names,
            rows=self.train,
            encoding=encoding,
        )


def load_tables(
    path: Path,
    test: Path | None = None,
    label: str | None = None,
    *,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    group: str | None = None,
) -> Tables:
    """Read a table of training examples and, if given, a table of test examples.

    The arguments are those of `read_frame`.
    """
    frame = read_frame(path, label=label, drop=drop, categorical=categorical, group=group)
    labels = frame.label
    assert labels is not None
    if frame.headless and (labels.values[1:] != labels.values[0]).all():
        word = labels.categories[labels.values[0]]
        raise DataError(
            f"{path}: the first row looks like a header, since its label {word!r} occurs "
            "in no other row; remove the row, or name the label column with --label"
        )
    check_count(len(frame), str(path))
    check_classes(labels.categories, str(path))
    tables = Tables(str(path), frame, labels.values.astype(np.int64), labels.categories)
    if test is None:
        return tables
    others = (*drop, group) if group is not None else drop
    later = read_later(test, frame.kinds, label=labels.name, others=others, in_order=frame.headless)
    return replace(tables, test=later, y_test=labels_of(later, labels.categories, str(test)))


def load_arrays(path: Path, test: Path | None = None) -> Dataset:
    """Make a data set of an .npz file and, if given, a file of test examples."""
    table = read_arrays(path)
    if table.labels is None:
        raise DataError(f"{path}: no labels; add them as an array named y")
    y, classes = class_indices(table.labels, str(path))
    x_test, y_test = np.empty((0, table.x.shape[1]), np.float32), np.empty(0, np.int64)
    if test is not None:
        later = read_later(test, by_position(table.x.shape[1]), in_order=True)
        x_test, y_test = (
            plain_encoding(later, str(test)).apply(later),
            labels_of(later, classes, str(test)),
        )
    return Dataset(str(path), table.x, y, x_test, y_test, classes, shape=table.shape)
