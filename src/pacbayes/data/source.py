"""Where examples come from: a named data set or your own file, with a fall-back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.arrays import read_arrays
from pacbayes.data.dataset import (
    DataError,
    Dataset,
    Examples,
    Labels,
    check_classes,
    check_count,
    class_indices,
    first_of_each,
    rows_sha256,
)
from pacbayes.data.encoding import Encoding, fit_encoding, plain_encoding
from pacbayes.data.frame import Frame
from pacbayes.data.later import by_position, labels_of, read_later, unknown_suffix
from pacbayes.data.named import DATASETS, load_named, unknown_name
from pacbayes.data.reading import is_table, read_frame

__all__ = ["DataSource", "Tables", "load", "load_arrays", "load_tables", "load_with_fallback"]

_TEST = "--test-data, or test=, is for your own file"
_TABLE = "--{0}, or {0}=, is for a table (a .csv, .tsv or .parquet file)"
_FOLDER = "--data-folder, or folder=, is for the files of MNIST, Fashion-MNIST and CIFAR-10"


def load(
    name: str,
    *,
    folder: Path | None = None,
    test: Path | None = None,
    label: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    deduplicate: bool = False,
) -> Dataset:
    """Load a data set by name, or your own .npz, .csv, .tsv or .parquet file by path.

    The columns of a table stay as they are; categories and missing values, whose encoding has to
    be fitted, are refused. `DataSource.read` takes them.

    Args:
        name: one of `NAMES`, or the path of a file.
        folder: folder that may hold the files of MNIST, Fashion-MNIST or CIFAR-10.
        test: file of test examples, if the training examples are a file.
        label: name or position of the label column of a table; the last by default.
        drop: columns of a table to leave out.
        categorical: columns of a table whose numbers are categories.
        deduplicate: keep only the first of training examples that are the same, label included.
    """
    names = tuple(drop), tuple(categorical)
    return DataSource(name, _text(folder), _text(test), label, deduplicate, *names).load()


@dataclass(frozen=True)
class DataSource:
    """Where the data of a run come from: the arguments of `load`, as run.json records them."""

    name: str
    folder: str | None = None
    test: str | None = None
    label: str | None = None
    deduplicate: bool = False
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    group: str | None = None

    def __str__(self) -> str:
        given = {"folder": self.folder, "test": self.test, "label": self.label}
        given |= {"drop": ", ".join(self.drop) or None, "group": self.group}
        given |= {"categorical": ", ".join(self.categorical) or None}
        words = [self.name, *(f"{k} {v}" for k, v in given.items() if v is not None)]
        return ", ".join([*words, *(["deduplicated"] if self.deduplicate else [])])

    def check(self) -> None:
        """Raise DataError if the name is unknown, or an argument would have no effect.

        Reading a run folder does not call this, so that runs recorded before a check was added
        stay readable.
        """
        named = DATASETS.get(self.name)
        if named is None and not Path(self.name).suffix:
            raise unknown_name(self.name)
        takes_folder = named is not None and named.takes_folder
        self._refuse(self.test, _TEST, useful=named is None)
        for option in ("label", "drop", "categorical", "group"):
            given = getattr(self, option)
            self._refuse(given, _TABLE.format(option), useful=self.is_table)
        self._refuse(self.folder, _FOLDER, useful=takes_folder)

    def _refuse(self, given: object, purpose: str, *, useful: bool) -> None:
        if given and not useful:
            raise DataError(f"{purpose}, not for {self.name}; leave it out")

    @property
    def is_table(self) -> bool:
        """Whether the examples come from a table: CSV or Parquet."""
        return self.is_file and is_table(self.name)

    @property
    def others(self) -> tuple[str, ...]:
        """Columns of a table that are neither features nor labels."""
        return self.drop if self.group is None else (*self.drop, self.group)

    @property
    def is_file(self) -> bool:
        """Whether the examples come from a file, not from a named data set."""
        return self.name not in DATASETS

    def seen_from(self, folder: Path) -> DataSource:
        """Return the source with paths relative to a folder, so that both can move together."""
        return self._mapped(lambda path: os.path.relpath(Path(path).resolve(), folder.resolve()))

    def located(self, folder: Path) -> DataSource:
        """Return the source with the paths that `seen_from` made, as the system has them."""
        return self._mapped(lambda path: str((folder / path).resolve()))

    def moved(self, file: Path | None, test: Path | None) -> DataSource:
        """Return the source with files that have moved at their new places."""
        for option, given, has in (("data", file, self.is_file), ("test-data", test, self.test)):
            if given is not None and not has:
                raise DataError(f"--{option} {given} has no effect: the run's data are {self}")
        name, part = (None if path is None else str(path) for path in (file, test))
        return replace(self, name=name or self.name, test=part or self.test)

    def _mapped(self, change: Callable[[str], str]) -> DataSource:
        name = change(self.name) if self.is_file else self.name
        folder, test = (path and change(path) for path in (self.folder, self.test))
        return replace(self, name=name, folder=folder, test=test)

    def load(self) -> Dataset:
        """Load the data; the columns of a table stay as they are."""
        data = self.read()
        return data if isinstance(data, Dataset) else data.plain()

    def read(self) -> Dataset | Tables:
        """Load the data, or read tables whose features are yet to be computed."""
        data = self._read()
        return data.deduplicated() if self.deduplicate else data

    def _read(self) -> Dataset | Tables:
        if not self.is_file:
            return load_named(self.name, _path(self.folder))
        path, test = Path(self.name), _path(self.test)
        if self.is_table:
            return load_tables(
                path,
                test,
                self.label,
                drop=self.drop,
                categorical=self.categorical,
                group=self.group,
            )
        if path.suffix == ".npz":
            return load_arrays(path, test)
        if not path.suffix:
            raise unknown_name(self.name)
        raise unknown_suffix(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def load_with_fallback(
    source: DataSource, fallback: DataSource | None = None
) -> tuple[DataSource, Dataset | Tables, str | None]:
    """Load a source, or the fall-back if the source cannot be obtained.

    Returns:
        The source that was used, its data, and the reason for the fall-back (None without one).

    Raises:
        DataError: a name is unknown, an argument would have no effect, or neither can be loaded.
    """
    source.check()
    if fallback is None:
        return source, source.read(), None
    fallback.check()
    try:
        return source, source.read(), None
    except DataError as error:
        reason = str(error)
    try:
        return fallback, fallback.read(), reason
    except DataError as error:
        raise DataError(f"{reason} The fall-back cannot be used either: {error}") from error


@dataclass(frozen=True)
class Tables(Examples):
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
        found: str = self.once("sha256", lambda: rows_sha256(self.train, self.y_train))
        return found

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
        data = Dataset(
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
        data._kept.update(self._kept)  # of the same rows
        return data


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
