"""Rows that an exported file must answer as the library does: of the run's data, and made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data import DataError, DataSource
from pacbayes.data.cells import MISSING, TRUTH
from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.data.frame import Column, Kind
from pacbayes.data.idx import cache_folder
from pacbayes.data.named import DATASETS
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import read_rows

__all__ = ["Rows", "is_table", "rows_for"]

Array = NDArray[Any]
_ABSENT = 0.2  # share of the made-up cells that are missing
_LEAST = 32  # made-up rows; more where a column has more categories


@dataclass(frozen=True)
class Rows:
    """Rows as a file is given them.

    Attributes:
        cells: of a table, (n,), by the names of the columns: numbers in float64, and texts. Of
            arrays there is one column, the examples in float32, (n, d).
        says: where they come from.
    """

    cells: Mapping[str, Array]
    says: str

    def __len__(self) -> int:
        return len(next(iter(self.cells.values())))

    @property
    def columns(self) -> list[Array]:
        """The inputs of a file that has one for every column."""
        return [cells.reshape(len(self), -1) for cells in self.cells.values()]

    @property
    def matrix(self) -> Array:
        """The input of a file that has one for all columns, which are numbers."""
        return np.concatenate(self.columns, axis=1)

    def save(self, folder: Path, run: Run) -> Path:
        """Write the rows as a file that `pacbayes predict` takes."""
        if not is_table(run):
            path = folder / "rows.npz"
            np.savez(path, x=self.matrix)
            return path
        import pyarrow as pa
        from pyarrow import parquet

        arrays = [pa.array(cells.tolist()) for cells in self.cells.values()]
        record = run.record.data  # a label, as the training set has: one column is no table
        label = pa.array([record.classes[0]] * len(self))
        names = [*self.cells, record.label or record.source.label or "label"]
        path = folder / "rows.parquet"
        parquet.write_table(pa.table([*arrays, label], names=names), path)
        return path


def is_table(run: Run) -> bool:
    """Tell whether the run's data are rows of a table, not arrays."""
    return run.record.data.source.is_table


def rows_for(run: Run, limit: int) -> Rows:
    """Return at most `limit` rows: of the run's data if they can be read, and made up."""
    if not is_table(run):
        return _own(run, limit) or _made_up_examples(run, limit)
    made = _made_up(run.encoding, limit - limit // 2)
    own = _own(run, limit - len(made)) if len(made) < limit else None
    if own is None:
        return made
    both = {name: np.concatenate([own.cells[name], made.cells[name]]) for name in made.cells}
    return Rows(both, f"{own.says} and {made.says}")


def _own(run: Run, limit: int) -> Rows | None:
    """Return rows of the run's data, evenly spread; None if the data are not where they were."""
    source = run.record.data.source.located(run.folder)
    if not _at_hand(source):
        return None
    try:
        if source.is_table:
            frame = read_rows(run, source.name)
            index = _spread(len(frame), limit)
            cells = {c.name: _cells(c) for c in frame.take(index).columns}
        else:
            x = source.load().x_train
            index = _spread(len(x), limit)
            cells = {"x": x[index]}
    except (DataError, OSError):
        return None
    return Rows(cells, f"{len(index)} rows of {Path(source.name).name}")


def _at_hand(source: DataSource) -> bool:
    """Tell whether the data can be read without a download."""
    known = DATASETS.get(source.name)
    own = source.folder or cache_folder() / source.name.removeprefix("binary-")
    return known is None or not known.takes_folder or Path(own).is_dir()


def _spread(n: int, limit: int) -> NDArray[np.int64]:
    """Return at most `limit` indices of n rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, limit)).astype(np.int64))


def _cells(column: Column) -> Array:
    """Return the cells of a column; a missing text is empty."""
    if column.kind is Kind.NUMBER:
        return column.values.astype(np.float64)
    return column.texts().astype(object)


def _made_up_examples(run: Run, limit: int) -> Rows:
    count = min(limit, _LEAST)
    x = np.random.default_rng(0).normal(size=(count, run.record.data.features))
    return Rows({"x": x.astype(np.float32)}, f"{count} made-up examples")


def _made_up(encoding: Encoding, limit: int) -> Rows:
    """Return rows in the range of the encoding's constants, and with texts that it does not know.

    Values are missing wherever the encoding takes it.
    """
    rng, missing = np.random.default_rng(0), not encoding.plain
    texts = {c.name: _texts(c, missing=missing) for c in encoding.columns}
    count = min(limit, max(_LEAST, *map(len, texts.values())))
    cells = {}
    for code in encoding.columns:
        if isinstance(code, NumberCode):
            cells[code.name] = rng.normal(code.mean, code.scale, count)
            cells[code.name][missing & (rng.random(count) < _ABSENT)] = np.nan
        else:
            every = np.array(texts[code.name], object)
            cells[code.name] = np.resize(rng.permutation(every), count)
    return Rows(cells, f"{count} made-up rows")


def _texts(code: NumberCode | BooleanCode | CategoryCode, *, missing: bool) -> list[str]:
    """Return all texts with features of their own, one that no training set had, and missing ones.

    A column of numbers has none.
    """
    if isinstance(code, NumberCode):
        return []
    absent = [*MISSING, "NA", "NaN"] if missing else []
    if isinstance(code, BooleanCode):
        return [*TRUTH, *(word.upper() for word in TRUTH), "unseen", *absent]
    known, unseen = [*code.categories, *code.rare], "unseen"
    while unseen in known:
        unseen += "?"
    return [*known, unseen, *absent]
