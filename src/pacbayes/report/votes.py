"""Measure the majority vote: doubtful examples, confusions, and the error when it abstains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.data import Dataset
from pacbayes.networks.network import Network
from pacbayes.randomness import permutation, seeded
from pacbayes.runs.folder import Run
from pacbayes.runs.prediction import TestErrors, count_test_errors, draw_labels, votes_of

__all__ = [
    "Coverage",
    "DoubtfulExample",
    "Image",
    "Votes",
    "analyse_votes",
    "confusion",
    "coverage",
    "image_of",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Array = NDArray[Any]
Image = tuple[int, int, int]
_SHOWN = 12  # examples
_VOTED_ON = 10_000  # training examples: an error of 5 % is then measured to 0.2 points
_POINTS = 200  # of a curve; more would not be visible


@dataclass(frozen=True)
class DoubtfulExample:
    """An example whose two leading classes are close; shares are mean class probabilities."""

    number: int
    label: str
    first: str
    first_share: float
    second: str
    second_share: float
    features: tuple[float, ...]


@dataclass(frozen=True)
class Coverage:
    """The vote if it answers only where its margin is at least `margin`, and abstains elsewhere."""

    margin: float
    answered: int
    fraction: float
    error: float


@dataclass(frozen=True)
class Votes:
    """The vote of `draws` networks on one part of the data.

    Attributes:
        part: the test set, or the bound set ("training") if there is no test set.
        n: examples voted on: all of a test set, and at most 10 000 of a bound set, at random.
        size: examples in the part.
        confusion: number of examples for each label (rows) and vote (columns).
        range: the least and the largest feature in the part, between which pixels are shown.
        image: channels, height and width of the image that the features form; None without one.
        errors: errors of every predictor on the test set, if there is one.
    """

    part: Literal["test", "training"]
    n: int
    size: int
    draws: int
    error: float
    doubtful: tuple[DoubtfulExample, ...]
    confusion: tuple[tuple[int, ...], ...]
    curve: tuple[Coverage, ...]
    range: tuple[float, float]
    image: Image | None
    errors: TestErrors | None = None


def analyse_votes(run: Run, network: Network, data: Dataset) -> Votes:
    """Vote on the test set, with the same draws that the test error is measured with.

    Without a test set, vote on a sample of the bound set. Draws belong to an example, so its vote
    is the same in every sample.
    """
    part: Literal["test", "training"] = "test" if len(data.x_test) else "training"
    x, y = everything, labels = data.tensors("test") if part == "test" else run.bound_set(data)
    chosen = torch.arange(len(x))
    if part == "training" and len(x) > _VOTED_ON:
        chosen = _sample(len(x), run)
        x, y = everything[chosen], labels[chosen]
    drawn, output = draw_labels(run, network, x)
    task = network.task
    wrong = task.wrong(output, y).double().numpy()
    shares, decoded = task.shares(output.double()).numpy(), task.decode(y).numpy()
    features = everything.numpy()
    margins = _margins(shares)
    return Votes(
        part=part,
        n=len(x),
        size=len(everything),
        draws=votes_of(network),
        error=float(wrong.mean()),
        doubtful=_doubtful(margins, shares, decoded, chosen.numpy(), features, data.classes),
        confusion=confusion(decoded, _ranking(shares)[:, 0], len(data.classes)),
        curve=coverage(margins, wrong),
        range=(min(0.0, float(features.min())), float(features.max())),
        image=image_of(features, data.shape),
        errors=count_test_errors(run, network, x, y, drawn, output) if part == "test" else None,
    )


def _sample(n: int, run: Run) -> Tensor:
    """Return the numbers of some of n examples, drawn from the run's seed, in order."""
    with seeded(run.settings.seed, "prediction"):
        return permutation(n)[:_VOTED_ON].sort().values


def _ranking(shares: Floats) -> Indices:
    """Return the classes of each example, most likely first."""
    return np.argsort(-shares, 1, kind="stable")


def _margins(shares: Floats) -> Floats:
    """Return the lead of the first class over the second."""
    best = np.sort(shares, 1)[:, -2:]
    return np.asarray(best[:, 1] - best[:, 0])


def _doubtful(
    margins: Floats,
    shares: Floats,
    labels: Indices,
    chosen: Indices,
    features: Array,
    names: tuple[str, ...],
) -> tuple[DoubtfulExample, ...]:
    """Return the examples with the smallest margins.

    Args:
        chosen: numbers of the examples that were voted on, as rows of the features.
    """
    found = []
    ranking = _ranking(shares)
    for i in np.argsort(margins, kind="stable")[:_SHOWN]:
        first, second = ranking[i, :2]
        found.append(
            DoubtfulExample(
                number=int(chosen[i]),
                label=names[labels[i]],
                first=names[first],
                first_share=float(shares[i, first]),
                second=names[second],
                second_share=float(shares[i, second]),
                features=tuple(features[chosen[i]].tolist()),
            )
        )
    return tuple(found)


def image_of(features: Array, shape: tuple[int, ...] | None) -> Image | None:
    """Return channels, height and width of the images that rows of features are, if they are any.

    Images of a known shape have one channel or three. Otherwise, rows may be squares of at least
    8×8 pixels, none of them negative.

    Args:
        shape: of an example, if the data have one.
    """
    if shape is not None and len(shape) > 1:
        known = (1, *shape) if len(shape) == 2 else shape
        return (known[0], known[1], known[2]) if len(known) == 3 and known[0] in (1, 3) else None
    side = round(features.shape[1] ** 0.5)
    square = side >= 8 and side**2 == features.shape[1] and features.min() >= 0
    return (1, side, side) if square else None


def confusion(labels: Indices, votes: Indices, classes: int) -> tuple[tuple[int, ...], ...]:
    """Count the examples for each label (rows) and vote (columns)."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, votes), 1)
    return tuple(tuple(row) for row in counts.tolist())


def coverage(margins: Floats, wrong: Floats) -> tuple[Coverage, ...]:
    """Return the error among answered examples, from the fewest answered to all.

    Thresholds are margins that occur, so examples with equal margins are answered together.
    """
    order = np.argsort(-margins, kind="stable")
    sorted_margins, errors = margins[order], np.cumsum(wrong[order])
    last = np.flatnonzero(np.append(np.diff(sorted_margins) != 0, True))
    if len(last) > _POINTS:
        wanted = np.linspace(0, len(margins) - 1, _POINTS)
        last = last[np.unique(np.searchsorted(last, wanted))]
    return tuple(
        Coverage(
            margin=float(sorted_margins[i]),
            answered=int(i) + 1,
            fraction=(int(i) + 1) / len(margins),
            error=float(errors[i] / (i + 1)),
        )
        for i in last
    )
