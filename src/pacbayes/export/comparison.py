"""Compare what a file answers with what the library answers to the same raw rows.

The rows are of the run's data, and made up: in the range of the encoding's constants, and with
texts that no training set had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.special import ndtr

from pacbayes.choices import Predictor
from pacbayes.data import DataError, DataSource
from pacbayes.data.cells import MISSING, TRUTH
from pacbayes.data.encoding import BooleanCode, CategoryCode, DateCode, Encoding, NumberCode
from pacbayes.data.frame import Column, Kind
from pacbayes.data.idx import cache_folder
from pacbayes.data.named import DATASETS
from pacbayes.data.tasks import Task
from pacbayes.export.predictors import weights_at
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import predict, read_rows
from pacbayes.networks.bodies import Evaluated
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import scores

__all__ = ["Library", "Rows", "is_table", "rows_for"]

Array = NDArray[Any]
_MICROSECONDS = 86_400 * 10**6  # of a day
_ABSENT = 0.2  # share of the made-up cells that are missing
_LEAST = 32  # made-up rows; more where a column has more categories


class _Given(TorchFunctionMode):
    """A context in which torch returns given noise instead of drawing it.

    A uniform number u becomes Φ(−ε), so that a sign unit's condition u < Φ(mean/deviation) is
    mean + deviation·ε > 0.
    """

    def __init__(self, noise: Sequence[Tensor]) -> None:
        super().__init__()
        self.noise = iter(noise)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.randn:
            return next(self.noise)
        return ndtr(-next(self.noise)) if func is torch.rand else func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Library:
    """The library's predictor that a file must equal.

    Attributes:
        weights: of the predictor, if it is one network.
    """

    run: Run
    network: Network
    method: Predictor
    weights: Mapping[str, Tensor]

    def difference(
        self,
        rows: Rows,
        noise: Sequence[Tensor],
        answer: tuple[Array, Array],
        *,
        names: bool,
        tolerance: float,
    ) -> float:
        """Return the largest difference from the scores that a file answered.

        Args:
            names: the file's labels are names of classes, not indices.

        Raises:
            RuntimeError: a score differs by more than the tolerance, or a label does.
        """
        score, label = answer
        classes = self.run.record.data.classes
        with TemporaryDirectory() as folder:
            path = rows.save(Path(folder), self.run)
            features = self.run.encoding.apply(read_rows(self.run, path), rows.says)
            said = self._predicted(path)
        x = torch.from_numpy(features)
        expected = _scores(self.network, self.method, x, noise, self.weights)
        index, task = _indices(label, classes, names=names), self.network.task
        said = task.decide(expected) if said is None else said
        return _check(task, expected, torch.from_numpy(score), index, said, tolerance)

    def _predicted(self, path: Path) -> Tensor | None:
        """Return what `pacbayes predict` answers, as indices; None if it draws its own noise."""
        if self.method not in (Predictor.DRAWN, Predictor.FIXED):
            return None
        asked = predict(self.run, str(path), self.method, samples=1, seed=0, label=None)
        classes = self.run.record.data.classes
        return torch.tensor([classes.index(label) for label in asked.labels])


@torch.no_grad()
def _scores(
    network: Network,
    method: Predictor,
    x: Tensor,
    noise: Sequence[Tensor],
    weights: Mapping[str, Tensor],
) -> Tensor:
    """Return scores computed by the library's own functions."""
    x = x.double()
    if method in (Predictor.DRAWN, Predictor.FIXED):
        return scores(network, dict(weights), x)
    if method is Predictor.VOTE:
        with _Given(noise):
            return network.draw(x, max((len(e) for e in noise), default=1)).value.mean(0)
    if isinstance(network.body, Evaluated):
        a = network.body.at(x, weights_at(network.body, noise[0]))
    else:
        with _Given([e.unsqueeze(0) for e in noise[:-1]]):
            a = network.body.draw(x, 1).value[0]
    mean, deviation = network.layer.moments(a)
    return network.task.scores(mean + deviation * noise[-1])


def _check(
    task: Task, expected: Tensor, score: Tensor, index: Tensor, said: Tensor, tolerance: float
) -> float:
    """Return the largest difference of scores.

    Raises RuntimeError if it exceeds the tolerance or if labels differ, except at ties.
    """
    if score.shape != expected.shape:
        raise RuntimeError(
            f"the exported graph returns scores of shape {tuple(score.shape)}, the library "
            f"{tuple(expected.shape)}; nothing was written"
        )
    difference = (score - expected).abs().max().item()
    limit = tolerance * max(1.0, expected.abs().max().item())
    if not difference <= limit:
        raise RuntimeError(
            "the exported graph does not compute what the library does: scores differ by "
            f"{difference:.1e}, at most {limit:.1e} is allowed; nothing was written"
        )
    margin = task.margin(expected, task.encode(index))
    wrong = (margin < -limit) | ((index != said) & (margin > limit))
    if wrong.any():
        raise RuntimeError(
            f"the exported graph answers {int(wrong.sum())} of {len(index)} rows otherwise than "
            "the library; nothing was written"
        )
    return difference


def _indices(labels: Array, classes: tuple[str, ...], *, names: bool) -> Tensor:
    """Return class indices of a file's labels, which are names of classes or indices."""
    known = {name if names else str(i): i for i, name in enumerate(classes)}
    try:
        return torch.tensor([known[str(label)] for label in labels.tolist()])
    except KeyError as error:
        raise RuntimeError(
            f"the exported graph answers {error}, which is no class; nothing was written"
        ) from None


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

        kinds = run.encoding.kinds
        arrays = [_arrow(cells, kinds[name]) for name, cells in self.cells.items()]
        record = run.record.data  # a label, as the training set has: one column is no table
        label = pa.array([record.classes[0]] * len(self))
        names = [*self.cells, record.label or record.source.label or "label"]
        path = folder / "rows.parquet"
        parquet.write_table(pa.table([*arrays, label], names=names), path)
        return path


def _arrow(cells: Array, kind: Kind) -> Any:
    """Return cells of a column as an array of Arrow; dates, in days, as timestamps."""
    import pyarrow as pa

    if kind is not Kind.DATE:
        return pa.array(cells.tolist())
    moments = np.round(np.nan_to_num(cells) * _MICROSECONDS).astype("datetime64[us]")
    return pa.array(moments, mask=np.isnan(cells))


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
    if column.kind.numeric:
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
            if isinstance(code, DateCode):  # whole days, which all formats hold alike
                cells[code.name] = np.round(cells[code.name])
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
