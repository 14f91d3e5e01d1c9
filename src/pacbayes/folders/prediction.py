"""Predictions of rows and files by what a folder holds, and errors on the test part."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.choices import Predictor
from pacbayes.data import NAMES, DataError, Dataset, check_width, load
from pacbayes.data.dataset import Floats
from pacbayes.data.frame import Frame
from pacbayes.data.later import read_matched
from pacbayes.engine.evaluation import sampler
from pacbayes.files import DamagedFileError, save_json
from pacbayes.folders.folder import Run, TrainedFolder
from pacbayes.networks.bodies import Deterministic, Evaluated
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import Weights
from pacbayes.networks.predictors import decide, prior_weights, scores
from pacbayes.networks.risk import majority_vote, predict_randomised
from pacbayes.networks.sampler import is_placed
from pacbayes.randomness import seeded

__all__ = [
    "VOTES",
    "Prediction",
    "TestErrors",
    "TrainedNetwork",
    "certified_predictor",
    "checked",
    "count_test_errors",
    "draw_labels",
    "error_of",
    "labelled_rows",
    "module_body",
    "predict",
    "read_rows",
    "test_errors",
    "votes_of",
]

Array = NDArray[Any]
VOTES = 100
FEW_VOTES = 10  # of a module, whose draws are dear
_BLOCK = 2_000  # examples in float64 at a time
_OF_MODULE = 500  # examples at a time, whose activations may be large
_SHARED = 64  # test examples for a draw of a module, as in a certificate


@dataclass(frozen=True)
class TestErrors:
    """Test errors of the randomised classifier, and of the majority vote over `votes` draws."""

    randomised: float
    vote: float
    votes: int
    n: int
    drawn: float | None = None  # of the network that was drawn and kept, if any
    fixed: float | None = None  # of the network at the prior's means, if it learned


@dataclass(frozen=True)
class Prediction:
    """Predicted labels, the predictor in words, and its error if labels were given.

    Attributes:
        votes: F̂(x) ∈ [−1, 1] of a majority vote, or the winner's share of more than two classes.
        error: among the answered rows.
        answered: whether each label is meant as an answer, if the predictor may abstain.
        best: the likeliest labels of each row, the likeliest first, if the certificate counts
            whether the right one is among them.
    """

    predictor: str
    labels: list[str]
    votes: list[float] | None
    error: float | None
    answered: list[bool] | None = None
    best: list[list[str]] | None = None


def test_errors(run: Run, network: Network, data: Dataset) -> TestErrors | None:
    """Measure errors on the test part, which certificates never use; save them in the folder."""
    if len(data.x_test) == 0:
        return None
    x, y = data.tensors("test")
    errors = count_test_errors(run, network, x, y, *draw_labels(run, network, x))
    save_json(run.folder / "test.json", asdict(errors))
    return errors


def count_test_errors(
    run: Run, network: Network, x: Tensor, y: Tensor, drawn: Tensor, share: Tensor
) -> TestErrors:
    """Return the errors of the labels that `draw_labels` gives to test examples."""
    return TestErrors(
        randomised=_mean(drawn != y),
        vote=_mean(network.task.wrong(share, y)),
        votes=votes_of(network),
        n=len(x),
        drawn=_error_of_kept(run, network, x, y),
        fixed=_error_of_prior(run, network, x, y),
    )


def _error_of_kept(run: Run, network: Network, x: Tensor, y: Tensor) -> float | None:
    if run.certificate_path(Predictor.DRAWN).exists():
        with suppress(ValueError, OSError):  # a damaged file is for `verify` to report
            return _error_of(network, run.load_drawn(), x, y)
    return None


def _error_of_prior(run: Run, network: Network, x: Tensor, y: Tensor) -> float | None:
    if not run.settings.prior_fraction:
        return None
    return _error_of(network, prior_weights(network), x, y)


def _error_of(network: Network, weights: Weights, x: Tensor, y: Tensor) -> float:
    exact = copy.deepcopy(network).double().eval()
    return _mean(network.task.wrong(scores(exact, weights, x), y))


def _mean(wrong: Tensor) -> float:
    return wrong.double().mean().item()


def draw_labels(run: Run, network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a label for every example, and the vote's mean output; the same every time."""
    fast = sampler(network)
    if fast is None:  # weights are drawn for a batch
        with seeded(run.settings.seed, "prediction"):
            labels = predict_randomised(network, x, shared=_SHARED)
            return labels, majority_vote(network, x, votes_of(network))
    ask = partial(decide, network, x=x, seed=run.settings.seed, samples=VOTES, sampler=fast)
    output = ask(predictor=Predictor.VOTE).output
    assert output is not None
    return network.task.encode(ask(predictor=Predictor.RANDOMISED).index), output


def votes_of(network: Network) -> int:
    """Return how many draws vote on a test set."""
    return VOTES if is_placed(network) else FEW_VOTES


def certified_predictor(run: TrainedFolder) -> Predictor:
    """Return the predictor with the lowest certified bound; randomised if nothing is certified."""
    there = [p for p in Predictor if run.certificate_path(p).exists()]
    return min(there, key=partial(_claimed_bound, run), default=Predictor.RANDOMISED)


def _claimed_bound(run: TrainedFolder, predictor: Predictor) -> float:
    return read_certificate(run.certificate_path(predictor)).bound


def predict(
    run: Run,
    data: Any,
    method: Predictor | str,
    *,
    samples: int = VOTES,
    seed: int = 0,
    label: str | None = None,
    network: Network | None = None,
) -> Prediction:
    """Predict labels for a file, rows in memory, or the test part of a named data set.

    Draws belong to the seed and the example: fresh for every new one, the same when asked again.

    Args:
        network: of the run, in float64, if it was loaded before.
    """
    method = Predictor(method)
    network = run.load_network().double().eval() if network is None else network
    features, given = labelled_rows(run, data, label)
    classes = run.record.data.classes
    weights = run.load_drawn() if method is Predictor.DRAWN else None
    ask = partial(decide, network, method, seed=seed, samples=samples, weights=weights)
    k, best = _answer_size(run, method), list[list[str]]()
    labels, confidence = list[str](), list[float]()
    for x in torch.from_numpy(features).split(_BLOCK):
        decisions = ask(x.double(), sampler=sampler(network))
        labels += [classes[i] for i in decisions.index.tolist()]
        if k > 1 and decisions.output is not None:
            order = np.argsort(-decisions.output.numpy(), axis=1, kind="stable")[:, :k]
            best += [[classes[i] for i in row] for row in order.tolist()]
        if method is Predictor.VOTE and decisions.output is not None:
            confidence += network.task.confidence(decisions.output).tolist()
    votes, predictor = None, method.sentence
    if method is Predictor.VOTE:
        votes = confidence
        predictor = f"majority vote over {samples} draws of the network"
        predictor += " (not covered by certificate.json)"
    error = error_of(best or [[label] for label in labels], given)
    return Prediction(predictor, labels, votes, error, best=best or None)


def error_of(
    answers: Sequence[Sequence[str]],
    given: Sequence[str] | None,
    answered: Sequence[bool] | None = None,
) -> float | None:
    """Return the share of rows whose label is not among the answers; None without labels.

    Args:
        answers: the labels that each row is answered by, one or several.
        answered: whether each row counts; by default all do.
    """
    if given is None:
        return None
    counted = answered or [True] * len(answers)
    wrong = [b not in a for a, b, one in zip(answers, given, counted, strict=True) if one]
    return sum(wrong) / len(wrong) if wrong else None


def _answer_size(run: Run, method: Predictor) -> int:
    """Return how many labels an answer has, as its certificate counts them."""
    path = run.certificate_path(method)
    if method in (Predictor.FIXED, Predictor.DRAWN) and path.exists():
        with suppress(ValueError, OSError):  # a damaged file is for `verify` to report
            return read_certificate(path).labels
    return 1


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network that takes rows as the run's file has them, as `pacbayes predict` does.

    Attributes:
        run: its folder.
        network: P and Q, in float64.
        predictor_: the predictor with the lowest certificate; `randomised` without any.
        certificate_: what covers it; None if nothing does.
        classes_: names of the classes.
    """

    run: Run
    network: Network
    predictor_: Predictor
    certificate_: Certificate | None
    classes_: Array

    @classmethod
    def of(cls, run: Run) -> TrainedNetwork:
        """Return the network of a run that is fully trained."""
        network, predictor = run.load_network().double().eval(), certified_predictor(run)
        path = run.certificate_path(predictor)
        certificate = read_certificate(path) if path.exists() else None
        return cls(run, network, predictor, certificate, np.array(run.record.data.classes))

    def predict(self, X: Any, method: Predictor | str | None = None) -> Array:
        """Return labels, as texts, for a file or for rows with the columns of the run's file.

        Args:
            method: randomised, vote, drawn or fixed; by default `predictor_`.
        """
        found = predict(self.run, X, method or self.predictor_, network=self.network)
        return np.array(found.labels)


def labelled_rows(
    run: TrainedFolder, data: Any, label: str | None
) -> tuple[Floats, list[str] | None]:
    """Read examples; return their features and, if there are any, their labels."""
    record, encoding = run.record.data, run.encoding
    where = str(data) if isinstance(data, str | Path) else "the rows"
    if isinstance(data, str) and data in NAMES:
        source = load(data)
        check_width(source.x_test, record.features, data)
        return source.x_test, checked(
            [source.classes[i] for i in source.y_test], record.classes, data
        )
    frame = read_rows(run, data, label)
    if label is not None and frame.label is None:
        raise DataError(f"{where}: no column {label!r}")
    found = None if frame.label is None else frame.label.texts().tolist()
    return encoding.apply(frame, where), checked(found, record.classes, where)


def read_rows(run: TrainedFolder, source: Any, label: str | None = None) -> Frame:
    """Read a file of rows, or rows in memory, with the columns of the run's training set."""
    record, encoding = run.record.data, run.encoding
    return read_matched(
        source,
        encoding.kinds,
        encoding.spellings,
        label=label or record.label or record.source.label,
        others=record.source.others,
        in_order=record.names is None,
    )


def checked(labels: list[str] | None, classes: Sequence[str], where: str) -> list[str] | None:
    """Return labels, if there are any; raise DataError if one is not among the classes."""
    if unknown := set(labels or ()) - set(classes):
        raise DataError(f"{where}: label {min(unknown)!r} is not among {', '.join(classes)}")
    return labels


def module_body(
    run: Run, prior: Mapping[str, Array] | None = None
) -> Callable[[Mapping[str, Array], Array], Array] | None:
    """Return the activations of a run's module at given weights, in float64; None if it is dense.

    Args:
        prior: tensors outside Q to use instead of the run's own, for example learned again.
    """
    if run.record.network is None:
        return None
    start = run.start_network()
    if run.blueprint.record(start) != run.record.network:  # the order of weights is that of draws
        raise DamagedFileError(f"{run.folder / 'run.json'} does not describe the run's network")
    network = start.double().eval()
    if prior is not None:
        frozen = {k: torch.from_numpy(np.array(prior[k])) for k in run.record.network.frozen}
        network.load_state_dict(network.state_dict() | frozen)
    body = network.body
    assert isinstance(body, Evaluated | Deterministic)

    @torch.no_grad()
    def activations(weights: Mapping[str, Array], x: Array) -> Array:
        blocks = torch.from_numpy(np.ascontiguousarray(x, dtype=float)).split(_OF_MODULE)
        if isinstance(body, Deterministic):
            found = [body.draw(block, 1).value[0] for block in blocks]
        else:
            names = (name for name in weights if name.startswith("body.posterior."))
            drawn = {
                name.removeprefix("body.posterior."): torch.from_numpy(np.array(weights[name]))
                for name in names
            }
            found = [body.checked(block, drawn) for block in blocks]
        activations: Array = torch.cat(found).numpy()
        return activations

    return activations
