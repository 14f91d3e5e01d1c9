"""Where examples come from: a named data set or your own file, with a fall-back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.data.dataset import DataError, Dataset
from pacbayes.data.named import DATASETS, load_named, unknown_name
from pacbayes.data.tables import load_tables

__all__ = ["DataSource", "load", "load_with_fallback"]

_TEST = "--test-data, or test=, is for your own .npz or .csv file"
_LABEL = "--label, or label=, is for a .csv file"
_FOLDER = "--data-folder, or folder=, is for the IDX files of MNIST and Fashion-MNIST"


def load(
    name: str,
    *,
    folder: Path | None = None,
    test: Path | None = None,
    label: str | None = None,
    deduplicate: bool = False,
) -> Dataset:
    """Load a data set by name, or your own .npz or .csv file by path.

    Args:
        name: one of `NAMES`, or the path of a file.
        folder: folder that may hold the IDX files of MNIST or Fashion-MNIST.
        test: file of test examples, if the training examples are a file.
        label: name or position of the label column of a CSV file.
        deduplicate: keep only the first of training examples that are the same, label included.
    """
    data = _loaded(name, folder, test, label)
    return data.deduplicated() if deduplicate else data


def _loaded(name: str, folder: Path | None, test: Path | None, label: str | None) -> Dataset:
    if name in DATASETS:
        return load_named(name, folder)
    if Path(name).suffix not in (".npz", ".csv"):
        raise unknown_name(name)
    return load_tables(Path(name), test, label)


@dataclass(frozen=True)
class DataSource:
    """Where the data of a run come from: the arguments of `load`, as run.json records them."""

    name: str
    folder: str | None = None
    test: str | None = None
    label: str | None = None
    deduplicate: bool = False

    def __str__(self) -> str:
        given = {"folder": self.folder, "test": self.test, "label": self.label}
        words = [self.name, *(f"{k} {v}" for k, v in given.items() if v is not None)]
        return ", ".join([*words, *(["deduplicated"] if self.deduplicate else [])])

    def check(self) -> None:
        """Raise DataError if the name is unknown, or an argument would have no effect.

        Reading a run folder does not call this, so that runs recorded before a check was added
        stay readable.
        """
        named, suffix = DATASETS.get(self.name), Path(self.name).suffix
        if named is None and not suffix:
            raise unknown_name(self.name)
        takes_folder = named is not None and named.takes_folder
        self._refuse(self.test, _TEST, useful=named is None)
        self._refuse(self.label, _LABEL, useful=suffix == ".csv")
        self._refuse(self.folder, _FOLDER, useful=takes_folder)

    def _refuse(self, given: str | None, purpose: str, *, useful: bool) -> None:
        if given is not None and not useful:
            raise DataError(f"{purpose}, not for {self.name}; leave it out")

    @property
    def is_file(self) -> bool:
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
        """Load the data."""
        return load(
            self.name,
            folder=_path(self.folder),
            test=_path(self.test),
            label=self.label,
            deduplicate=self.deduplicate,
        )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def load_with_fallback(
    source: DataSource, fallback: DataSource | None = None
) -> tuple[DataSource, Dataset, str | None]:
    """Load a source, or the fall-back if the source cannot be obtained.

    Returns:
        The source that was used, its data, and the reason for the fall-back (None without one).

    Raises:
        DataError: a name is unknown, an argument would have no effect, or neither can be loaded.
    """
    source.check()
    if fallback is None:
        return source, source.load(), None
    fallback.check()
    try:
        return source, source.load(), None
    except DataError as error:
        reason = str(error)
    try:
        return fallback, fallback.load(), reason
    except DataError as error:
        raise DataError(f"{reason}\nThe fall-back cannot be used either: {error}") from error
