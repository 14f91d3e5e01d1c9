"""What the predictors of a network answer: the certified one, and the vote with its confidence."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.data.encoding import BooleanCode, CategoryCode, NumberCode
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import TestErrors, count_test_errors, draw_labels, votes_of
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import prior_weights, scores
from pacbayes.randomness import permutation, seeded
from pacbayes.report.answers import Answers, DoubtfulExample, Floats, confusion, image_of

__all__ = ["answers_of"]

_VOTED_ON = 10_000  # training examples: an error of 5 % is then measured to 0.2 points
_OPTIMISTIC = "There is no test set; the error on training examples is optimistic."


def answers_of(
    run: Run, network: Network, data: Dataset, covered: Predictor | None = None
) -> tuple[tuple[Answers, ...], TestErrors | None]:
    """Return the answers of the certified predictor and of the vote, and all test errors.

    They answer the test set, with the same draws that the test error is measured with. Without a
    test set, they answer a sample of the bound set. Draws belong to an example, so its vote is the
    same in every sample.
    """
    tested, task = len(data.x_test) > 0, network.task
    everything, labels = data.tensors("test") if tested else run.bound_set(data)
    numbers, where = torch.arange(len(everything)), f"the {len(everything)} test examples"
    if not tested:
        numbers, where = _sample(len(everything), run)
    x, y = everything[numbers], labels[numbers]
    drawn, output = draw_labels(run, network, x)
    errors = count_test_errors(run, network, x, y, drawn, output) if tested else None

    def answers(who: str, index: Tensor, wrong: Tensor) -> Answers:
        counts = confusion(task.decode(y).numpy(), index.numpy(), len(data.classes))
        part, note = ("test", "") if tested else ("training", _OPTIMISTIC)
        error = wrong.double().mean().item()
        return Answers(who, part, where, error, counts, data.classes, note)

    shares, wrong = task.shares(output.double()).numpy(), task.wrong(output, y)
    names = {None: "", Predictor.VOTE: " (certified)"}
    who = f"The majority vote of {votes_of(network)} networks"
    who += names.get(covered, " (not covered by the first certificate)")
    vote = answers(who, torch.from_numpy(shares.argmax(1)), wrong).with_confidence(
        shares,
        task.decode(y).numpy(),
        wrong.double().numpy(),
        numbers.numpy(),
        f"in a vote of {votes_of(network)} networks drawn from Q. Percentages are mean "
        "probabilities of a class over the networks.",
    )
    vote = _with_features(vote, everything.numpy(), data)
    if covered in names:
        return (vote,), errors
    assert covered is not None
    who = f"{covered.title} (certified)"
    if covered is Predictor.RANDOMISED:
        return (answers(who, task.decode(drawn), drawn != y), vote), errors
    weights = run.load_drawn() if covered is Predictor.DRAWN else prior_weights(network)
    output = scores(copy.deepcopy(network).double().eval(), weights, x)
    return (answers(who, task.decide(output), task.wrong(output, y)), vote), errors


def _sample(n: int, run: Run) -> tuple[Tensor, str]:
    """Return the numbers of examples of the bound set to ask about, in order, and what they are.

    They are all, or drawn from the run's seed.
    """
    if n <= _VOTED_ON:
        return torch.arange(n), f"the {n} training examples in the bound set"
    with seeded(run.settings.seed, "prediction"):
        numbers = permutation(n)[:_VOTED_ON].sort().values
    sample = f"{_VOTED_ON} training examples, drawn at random from the {n} in the bound set"
    return numbers, sample


def _with_features(answers: Answers, features: Floats, data: Dataset) -> Answers:
    """Add the doubtful examples as the file has them, or as images."""
    if data.encoding is not None and data.names is not None:
        names = [code.name for code in data.encoding.columns]
    else:
        names = [f"x{i + 1}" for i in range(features.shape[1])]
    doubtful = [_seen(d, features[d.number].tolist(), data) for d in answers.doubtful]
    return replace(
        answers,
        doubtful=tuple(doubtful),
        columns=tuple(names),
        range=(min(0.0, float(features.min())), float(features.max())),
        image=image_of(features, data.shape),
    )


def _seen(d: DoubtfulExample, values: list[float], data: Dataset) -> DoubtfulExample:
    cells, start = [], 0
    for code in () if data.encoding is None else data.encoding.columns:
        end = start + len(code.names)
        cells.append(_cell(code, values[start:end]))
        start = end
    return replace(
        d, features=tuple(values), cells=tuple(cells) or tuple(f"{v:.4g}" for v in values)
    )


def _cell(code: NumberCode | BooleanCode | CategoryCode, features: Sequence[float]) -> str:
    """Return a cell as the table had it, from its features."""
    if code.missing and features[-1] == 1:
        return "missing"
    if isinstance(code, NumberCode):
        return f"{features[0] * code.scale + code.mean:.4g}"
    if isinstance(code, BooleanCode):
        return "true" if features[0] else "false"
    words = (*code.categories, *(["rare"] if code.rare else []))
    return next((word for word, x in zip(words, features, strict=False) if x), "unseen")
