"""The majority vote: where it is unsure, what it confuses, what abstaining would buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes.data import Dataset
from pacbayes.networks.network import Network
from pacbayes.runs.folder import Run
from pacbayes.runs.prediction import VOTES, draw_labels

__all__ = ["Coverage", "Doubtful", "Votes", "confusion", "coverage", "look_at_votes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
_SHOWN = 12  # examples
_POINTS = 200  # of a curve, beyond which nobody sees a difference


@dataclass(frozen=True)
class Doubtful:
    """An example whose two most voted classes are close: class names and shares of the votes."""

    number: int
    label: str
    first: str
    first_share: float
    second: str
    second_share: float
    features: tuple[float, ...]


@dataclass(frozen=True)
class Coverage:
    """The vote if it answers only where its margin is at least so large."""

    margin: float
    answered: int
    part: float
    error: float


@dataclass(frozen=True)
class Votes:
    """The vote of `draws` networks on one part of the data.

    Attributes:
        part: which examples these are: the test part, or the bound set where there is none.
        confusion: counts, of every label (rows) those of every vote.
        brightest: the largest feature of the part, white where features are pixels.
        side: of the image that the features form; None where they form none.
    """

    part: Literal["test", "training"]
    n: int
    draws: int
    error: float
    doubtful: tuple[Doubtful, ...]
    confusion: tuple[tuple[int, ...], ...]
    curve: tuple[Coverage, ...]
    brightest: float
    side: int | None


def look_at_votes(run: Run, network: Network, data: Dataset) -> Votes:
    """Vote on the test part, with the draws that the test error is measured with."""
    part: Literal["test", "training"] = "test" if len(data.x_test) else "training"
    x, y = data.tensors("test") if part == "test" else run.bound_set(data)
    output = draw_labels(run, network, x)[1]
    task, features = network.task, x.double().numpy()
    shares, labels = task.shares(output.double()).numpy(), task.decode(y).numpy()
    wrong = task.wrong(output, y).double().numpy()
    order = np.argsort(-shares, 1, kind="stable")
    margins = _margins(shares)
    least = np.argsort(margins, kind="stable")[:_SHOWN]
    names = data.classes
    return Votes(
        part=part,
        n=len(x),
        draws=VOTES,
        error=float(wrong.mean()),
        doubtful=tuple(
            Doubtful(
                int(i),
                names[labels[i]],
                names[order[i, 0]],
                float(shares[i, order[i, 0]]),
                names[order[i, 1]],
                float(shares[i, order[i, 1]]),
                tuple(features[i].tolist()),
            )
            for i in least
        ),
        confusion=confusion(labels, order[:, 0], len(names)),
        curve=coverage(margins, wrong),
        brightest=float(features.max()),
        side=_side(features),
    )


def _margins(shares: Floats) -> Floats:
    """How far the most voted class is before the next."""
    best = np.sort(shares, 1)[:, -2:]
    return np.asarray(best[:, 1] - best[:, 0])


def _side(features: Floats) -> int | None:
    """Of a square image of 8×8 pixels or more, none of them negative."""
    side = round(features.shape[1] ** 0.5)
    return side if side >= 8 and side**2 == features.shape[1] and features.min() >= 0 else None


def confusion(labels: Indices, votes: Indices, classes: int) -> tuple[tuple[int, ...], ...]:
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, votes), 1)
    return tuple(tuple(row) for row in counts.tolist())


def coverage(margins: Floats, wrong: Floats) -> tuple[Coverage, ...]:
    """Error against the part answered, at margins that occur; examples tied in margin go together.

    From the fewest answered to all.
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
            part=(int(i) + 1) / len(margins),
            error=float(errors[i] / (i + 1)),
        )
        for i in last
    )
