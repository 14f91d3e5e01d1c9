"""Where examples come from: a named data set or your own file, with a fall-back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.data.dataset import DataError, Dataset
from pacbayes.data.later import unknown_suffix
from pacbayes.data.named import DATASETS, load_named, unknown_name
from pacbayes.data.reading import is_table
from pacbayes.data.tables import Tables, load_arrays, load_tables

__all__ = ["DataSource", "load", "load_with_fallback"]

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
