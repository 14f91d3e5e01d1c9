"""What was measured of a network: its training, how far its weights moved, what it answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, starmap

import torch
from torch import Tensor

from pacbayes.bounds import percent_up
from pacbayes.certificates.explanation import layer_of
from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.data.encoding import BooleanCode, CategoryCode, NumberCode
from pacbayes.folders.folder import Run
from pacbayes.folders.prediction import TestErrors, count_test_errors, draw_labels, votes_of
from pacbayes.networks.families import law_of
from pacbayes.networks.families.diagonal import Gaussian, Law, ratio, shift
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians
from pacbayes.networks.predictors import prior_weights, scores
from pacbayes.randomness import permutation, seeded
from pacbayes.report.answers import Answers, DoubtfulExample, Floats, confusion, image_of
from pacbayes.report.charts import Mark, Series, bars, histogram, line_chart
from pacbayes.report.contents import Contents
from pacbayes.report.markup import (
    Html,
    Section,
    card,
    details,
    element,
    figure,
    join,
    legend,
)
from pacbayes.training.loop import Evaluation

__all__ = [
    "ByEpoch",
    "Histogram",
    "LayerMovement",
    "answers_of",
    "layer_movements",
    "training_section",
    "weights_section",
]

_UNTRAINED = (
    "The posterior was not trained: it is the prior. What the prior learned, it learned from its "
    "own part of the examples. The bound below is a guide, not a certificate."
)
_HEADER = (
    *("layer", "weights", "KL, nats", "(μ − μ₀)/σ₀, RMS", "largest"),
    *("σ/σ₀, 5 %", "median", "95 %"),
)
_VOTED_ON = 10_000  # training examples: an error of 5 % is then measured to 0.2 points
_OPTIMISTIC = "There is no test set; the error on training examples is optimistic."
_BINS = 41  # odd, so that one bin is centred at zero


@dataclass(frozen=True)
class ByEpoch:
    """The columns of a history: for each epoch, bound and risk in per cent and KL in nats."""

    epochs: list[int]
    bounds: list[float]
    risks: list[float]
    kls: list[float]

    @classmethod
    def of(cls, history: Sequence[Evaluation]) -> ByEpoch:
        """Return the columns of a list of evaluations."""
        rows = [(e.epoch, 100 * e.bound, 100 * e.risk, e.kl) for e in history]
        return cls(*map(list, zip(*rows, strict=True)))


def training_section(contents: Contents) -> Section | None:
    """Write how bound, risk and KL changed in training, or None if nothing was recorded."""
    if contents.training is None:
        return None
    history, best = contents.training
    if history[-1].epoch == 0:
        body = join(element("p", _UNTRAINED), card(_numbers(history)))
        return Section("training", "Training", body)
    text = (
        f"Training ran for {history[-1].epoch} epochs. The dashed line marks epoch {best.epoch}, "
        "which had the best bound; its weights were kept. This bound guides training and is not a "
        f"certificate: it is Catoni's bound without the Monte-Carlo error.{contents.of_another}"
    )
    charts = element("div", _errors(history, best), _kl(history, best), class_="pair")
    body = join(element("p", text), card(charts, _numbers(history)))
    return Section("training", "Training", body)


def _errors(history: Sequence[Evaluation], best: Evaluation) -> Html:
    by_epoch = ByEpoch.of(history)
    bound, risk = f"bound {percent_up(best.bound)}", f"training risk {100 * best.risk:.2f} %"
    chart = line_chart(
        "training-errors",
        "Bound and training risk by epoch",
        f"At epoch {best.epoch}: {bound}, {risk}.",
        [
            Series("monte-carlo", by_epoch.epochs, by_epoch.bounds),
            Series("risk", by_epoch.epochs, by_epoch.risks),
        ],
        x_name="epoch",
        y_unit=" %",
        marked=best.epoch,
    )
    return figure(legend(("monte-carlo", bound), ("risk", risk)), chart)


def _kl(history: Sequence[Evaluation], best: Evaluation) -> Html:
    by_epoch = ByEpoch.of(history)
    chart = line_chart(
        "training-kl",
        "KL by epoch",
        f"At epoch {best.epoch}: KL(Q|P) is {best.kl:.1f} nats.",
        [Series("kl", by_epoch.epochs, by_epoch.kls)],
        x_name="epoch",
        marked=best.epoch,
    )
    return figure(legend(("kl", f"KL(Q|P) {best.kl:.1f} nats")), chart)


def _numbers(history: Sequence[Evaluation]) -> Html:
    header = ["epoch", "training risk, %", "KL, nats", "bound, %", "λ"]
    rows = [
        [f"{e.epoch}", f"{100 * e.risk:.3f}", f"{e.kl:.2f}", f"{100 * e.bound:.3f}", f"{e.lam:.6g}"]
        for e in history
    ]
    return details("Numbers in these charts", header, rows)


def weights_section(contents: Contents) -> Section | None:
    """Show how far the weights of each layer moved from the prior, if there are weights."""
    movements = contents.movements
    if not movements:
        return None
    text = (
        "How far the posterior N(μ, σ²) of each layer has moved from its prior N(μ₀, σ₀²), weights "
        "and biases together. Bar heights are logarithmic because most weights hardly move."
    )
    if not any(m.scales for m in movements):
        text += " The standard deviations are the prior's: σ = σ₀."
    text += contents.of_another
    rows = list(map(_row, movements))
    if not any(m.kl for m in movements):
        text = "The posterior is the prior: no layer has moved."
        numbers = details("Layers", _HEADER, rows)
        return Section("weights", "Weights", join(element("p", text), card(numbers)))
    layers = element("div", *starmap(_layer, enumerate(movements, 1)), class_="layers")
    numbers = details("Numbers in these charts", _HEADER, rows)
    body = join(element("p", text), card(layers, _kl_by_layer(movements), numbers))
    return Section("weights", "Weights", body)


def _layer(i: int, m: LayerMovement) -> Html:
    drawn = [_histogram(f"means-{i}", "(μ − μ₀)/σ₀", m.layer, "risk", m.means)]
    if m.scales is not None:
        drawn.append(_histogram(f"scales-{i}", "σ/σ₀", m.layer, "kl", m.scales))
    return element("div", element("h3", m.layer.capitalize()), *drawn)


def _histogram(key: str, quantity: str, layer: str, class_: str, h: Histogram) -> Html:
    desc = f"{sum(h.counts)} values from {h.low:.3g} to {h.high:.3g}"
    middle = 0.5 * (h.low + h.high)
    ends = [element("span", _signed(value)) for value in (h.low, middle, h.high)]
    return join(
        element("p", quantity, class_="quantity"),
        histogram(key, f"{quantity} in {layer}", desc, class_, h.counts),
        element("div", *ends, class_="ends", aria_hidden="true"),
    )


def _signed(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _kl_by_layer(movements: tuple[LayerMovement, ...]) -> Html:
    marks = [Mark("kl", m.kl, f"{m.layer}: {m.kl:.4g} nats") for m in movements]
    desc = "; ".join(m.text for m in marks)
    return figure("KL by layer, in nats", bars("kl", "KL by layer", desc, marks, ""))


def _row(m: LayerMovement) -> list[str]:
    numbers = (m.kl, m.rms, m.largest, *m.quantiles)
    return [m.layer, f"{m.weights}", *(f"{value:.4g}" for value in numbers)]


@dataclass(frozen=True)
class Histogram:
    """The number of values in each of several equal intervals between `low` and `high`."""

    low: float
    high: float
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: torch.Tensor, low: float, high: float) -> Histogram:
        """Count values in equal bins between two limits."""
        counts = torch.histc(values, _BINS, low, high).long().tolist()
        return cls(low, high, tuple(counts))


@dataclass(frozen=True)
class LayerMovement:
    """How far a layer has moved from its prior, weights and biases together.

    Attributes:
        rms, largest: root mean square and largest absolute value of (μ − μ₀)/σ₀.
        quantiles: of σ/σ₀, at 5, 50 and 95 per cent.
        means: histogram of (μ − μ₀)/σ₀.
        scales: histogram of σ/σ₀; None if the standard deviations are not learned.
    """

    layer: str
    weights: int
    kl: float
    rms: float
    largest: float
    quantiles: tuple[float, float, float]
    means: Histogram
    scales: Histogram | None


@torch.no_grad()
def layer_movements(
    network: Network, names: Mapping[str, str] | None = None
) -> tuple[LayerMovement, ...]:
    """Return the movement of every layer, with histograms on common axes.

    Args:
        names: better names for layers, as `RunRecord.layer_names`.
    """
    layers = _by_layer(network)
    everything = list(chain(*layers.values()))
    farthest = _joined(shift, everything).abs().max().item() or 1.0
    low, high = _joined(ratio, everything).aminmax()
    scales = (low.item(), high.item())
    shown = {layer: (names or {}).get(layer, layer) for layer in layers}
    return tuple(
        _movement(shown[layer], parts, farthest, scales) for layer, parts in layers.items()
    )


def _movement(
    layer: str, parts: list[Gaussian], farthest: float, scales: tuple[float, float]
) -> LayerMovement:
    """Return the movement of a layer; means reach ±`farthest`, and `scales` are ends of an axis."""
    shifts, ratios = _joined(shift, parts), _joined(ratio, parts)
    low, high = scales
    return LayerMovement(
        layer=layer,
        weights=shifts.numel(),
        kl=sum(g.kl().item() for g in parts),
        rms=shifts.square().mean().sqrt().item(),
        largest=shifts.abs().max().item(),
        quantiles=_quantiles(ratios),
        means=Histogram.of(shifts, -farthest, farthest),
        scales=Histogram.of(ratios, low, high) if low < high else None,
    )


def _by_layer(network: Network) -> dict[str, list[Gaussian]]:
    """Return the Gaussians of each layer, in the order of the layers."""
    found: dict[str, list[Gaussian]] = {}
    for name, g in gaussians(network).items():
        found.setdefault(layer_of(name), []).append(g)
    return found


def _joined(values: Callable[[Law], torch.Tensor], parts: list[Gaussian]) -> torch.Tensor:
    return torch.cat([values(law_of(g)) for g in parts])


def _quantiles(values: torch.Tensor) -> tuple[float, float, float]:
    ordered = values.sort().values
    low, middle, high = (ordered[round(q * (len(ordered) - 1))].item() for q in (0.05, 0.5, 0.95))
    return low, middle, high


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
