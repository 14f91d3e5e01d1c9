"""Compare what a file answers with what the library answers to the same raw rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.special import ndtr

from pacbayes.choices import Predictor
from pacbayes.data.tasks import Task
from pacbayes.export.modules import weights_at
from pacbayes.export.rows import Rows
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import predict, read_rows
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.network import Network
from pacbayes.networks.weights import scores

__all__ = ["Library"]


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
        answer: tuple[NDArray[Any], NDArray[Any]],
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


def _indices(labels: NDArray[Any], classes: tuple[str, ...], *, names: bool) -> Tensor:
    """Return class indices of a file's labels, which are names of classes or indices."""
    known = {name if names else str(i): i for i, name in enumerate(classes)}
    try:
        return torch.tensor([known[str(label)] for label in labels.tolist()])
    except KeyError as error:
        raise RuntimeError(
            f"the exported graph answers {error}, which is no class; nothing was written"
        ) from None
