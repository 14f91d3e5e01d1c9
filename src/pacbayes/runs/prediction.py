"""Predictions of a trained run, and its errors on the test part."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pacbayes.certificates.drawn import scores
from pacbayes.choices import DRAWN, RANDOMISED
from pacbayes.data import (
    NAMES,
    DataError,
    Dataset,
    Table,
    check_names,
    check_width,
    load,
    read_table,
)
from pacbayes.files import save_json
from pacbayes.networks.losses import wrong_class, zero_one
from pacbayes.networks.network import Network
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.randomness import one_by_one, seeded
from pacbayes.runs.folder import Run

__all__ = ["VOTES", "Prediction", "TestErrors", "draw_labels", "predict", "test_errors"]

VOTE = "majority vote over {} draws of the network (not covered by certificate.json)"
VOTES = 100


@dataclass(frozen=True)
class TestErrors:
    """Test errors of the randomised classifier, and of the majority vote over `votes` draws."""

    randomised: float
    vote: float
    votes: int
    n: int
    drawn: float | None = None  # of the network that was drawn and kept, if any


@dataclass(frozen=True)
class Prediction:
    """Predicted labels, by which predictor, and its error where labels were given.

    Attributes:
        votes: of the majority vote F̂(x) ∈ [−1, 1], or of more than two classes the winner's part.
    """

    predictor: str
    labels: list[str]
    votes: list[float] | None
    error: float | None


def test_errors(run: Run, network: Network, data: Dataset) -> TestErrors | None:
    """Errors on the test part, which the certificate never looks at; left in the folder too."""
    if len(data.x_test) == 0:
        return None
    x, y = data.tensors("test")
    drawn, share = draw_labels(run, network, x)
    randomised = (drawn != y).double().mean().item()
    votes = zero_one(share, y) if network.outputs == 1 else wrong_class(share, y)
    vote = votes.double().mean().item()
    kept = None
    if run.certificate_path(DRAWN).exists():
        with suppress(ValueError, OSError):  # not what is asked about here; `verify` says so
            z = scores(network, run.load_drawn(), x)
            predicted = z.sign() if network.outputs == 1 else z.argmax(-1)
            kept = (predicted != y).double().mean().item()
    errors = TestErrors(randomised, vote, VOTES, len(x), kept)
    save_json(run.folder / "test.json", asdict(errors))
    return errors


def draw_labels(run: Run, network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """A label drawn for every example, and the mean output the vote goes by; the same each time."""
    with seeded(run.settings.seed, "prediction"):
        return predict_randomised(network, x), majority_vote(network, x, VOTES)


def predict(
    run: Run, data: str, method: str, *, samples: int, seed: int, label: str | None
) -> Prediction:
    """Labels for a file of examples, or for the test part of a named data set.

    Draws belong to the seed and the example: fresh for every new one, the same when asked again.
    """
    network = run.load_network().double().eval()
    classes, width = run.record.data.classes, run.record.data.features
    if data in NAMES:
        source = load(data)
        table = Table(source.x_test, np.array([source.classes[i] for i in source.y_test]))
        check_width(table.x, width, data)
    else:
        table = read_table(Path(data), label, width, run.record.data.source.label)
    check_names(table.names, run.record.data.names, data)
    if table.labels is not None and (unknown := set(map(str, table.labels)) - set(classes)):
        raise DataError(f"{data}: label {min(unknown)!r} is not among {', '.join(classes)}")
    x = torch.from_numpy(table.x).double()
    votes = None
    if method == "drawn":
        z = scores(network, run.load_drawn(), x)
        chosen = z > 0 if network.outputs == 1 else z.argmax(-1)
    elif method == "vote":
        share = one_by_one(partial(majority_vote, network, samples=samples), x, seed)
        votes = (share if network.outputs == 1 else share.amax(-1)).tolist()
        chosen = share > 0 if network.outputs == 1 else share.argmax(-1)
    else:
        drawn = one_by_one(partial(predict_randomised, network), x, seed)
        chosen = drawn > 0 if network.outputs == 1 else drawn
    labels = [classes[i] for i in chosen.int().tolist()]
    error = None
    if table.labels is not None:
        wrong = [a != str(b) for a, b in zip(labels, table.labels, strict=True)]
        error = sum(wrong) / len(wrong)
    names = {"randomised": RANDOMISED, "vote": VOTE.format(samples), "drawn": DRAWN}
    predictor = names[method]
    return Prediction(predictor, labels, votes, error)
