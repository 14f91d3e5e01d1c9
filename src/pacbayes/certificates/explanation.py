"""A certificate explained: in words, as a sum, and beside other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pacbayes import paper
from pacbayes.bounds import percent_up
from pacbayes.bounds.theorems import THEOREMS
from pacbayes.choices import Predictor

if TYPE_CHECKING:
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.runs.prediction import TestErrors
    from pacbayes.runs.record import RunRecord

__all__ = [
    "Beside",
    "Step",
    "beside",
    "layer_of",
    "nats",
    "paper_result",
    "percent",
    "sentence",
    "steps",
]

_TIMES = {2.0: ", twice", 4.0: ", four times"}  # Markov's inequality


@dataclass(frozen=True)
class Step:
    """One of the parts that add up to the bound, and where it comes from."""

    kind: Literal["risk", "monte-carlo", "sample", "kl"]
    label: str
    points: float
    detail: str = ""


@dataclass(frozen=True)
class Beside:
    """A number of the run, and the paper's for it where there is one."""

    label: str
    ours: str
    theirs: str = "–"


def sentence(c: Certificate) -> str:
    """Whom the certificate covers, with which probability over what."""
    sampled = "" if c.draws is None else " and of the networks sampled"
    return (
        f"With probability {1 - c.delta:g} over the draw of the {c.n} training examples{sampled},\n"
        f"the {c.predictor},\nerrs on at most this part of new examples. "
        f"Theorem: {c.bound_name}."
    )


def steps(c: Certificate) -> Iterator[Step]:
    """Where each percentage point comes from; the parts add up to the bound."""
    parts = dict(c.contributions)
    kind = "exact" if c.draws is None else "sampled"
    theorem = THEOREMS[c.bound_name]
    label = "training risk" + " of pairs" * theorem.pairs + _TIMES.get(theorem.factor, "")
    yield Step("risk", f"{label}, {kind}", parts.pop("risk"))
    detail = "" if c.draws is None else f"{c.draws:.0f} draws, {c.monte_carlo}"
    spent = "" if c.draws is None else f", δ = {c.ledger['monte-carlo']:g}"
    yield Step("monte-carlo", "Monte-Carlo error", parts.pop("monte-carlo"), detail + spent)
    part = c.ledger.get("pac-bayes", c.ledger.get(f"pac-bayes, {c.bound_name}", c.delta))
    detail = f"{c.bound_name}, n = {c.n}, δ = {part:g}"
    others = {name.split(",")[0] for name in c.ledger if name.startswith("other prior")}
    detail += f", {len(others) + 1} priors tried" if others else ""
    yield Step("sample", "finite sample, whatever is learned", parts.pop("log terms"), detail)
    for layer, (points, kl) in _layers(c, parts).items():
        yield Step("kl", f"what was learned in {layer}", points, f"KL {kl:.1f}")


def layer_of(part: str) -> str:
    """The layer a Gaussian belongs to, counted from 1, by the name it has in the network."""
    number = part.rpartition(".")[0].removeprefix("body.layers.")
    return f"layer {int(number) + 1}" if number.isdigit() else "the last layer"


def _layers(c: Certificate, parts: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Weights and biases of a layer together."""
    layers: dict[str, tuple[float, float]] = {}
    for name, kl in c.kl_by_part.items():
        points, total = layers.get(layer_of(name), (0.0, 0.0))
        layers[layer_of(name)] = points + parts[f"KL of {name}"], total + kl
    return layers


def paper_result(record: RunRecord) -> paper.PaperResult | None:
    """The paper's column for the run's objective and units, on the paper's data and depth."""
    s = record.settings
    comparable = record.data.source.name == "binary-mnist" and len(s.widths) == 3
    return paper.RESULTS.get((s.objective, s.activation)) if comparable else None


def beside(c: Certificate, errors: TestErrors | None, record: RunRecord) -> Iterator[Beside]:
    """The certificate's numbers with test errors, and the paper's where comparable."""
    theirs = paper_result(record)
    included = "" if c.draws is None else ", Monte-Carlo included"
    yield Beside(f"certificate{included}", percent_up(c.bound))
    if c.kind is Predictor.RANDOMISED:
        paper_way = "bound in the paper's way (Catoni, no Monte-Carlo)"
        yield Beside(paper_way, percent_up(c.catoni), _printed(theirs, "bound"))
    yield Beside("held-out bound, were all n examples unseen", percent_up(c.held_out))
    if THEOREMS[c.bound_name].pairs:
        yield Beside("train risk of pairs", percent(c.risk))
    else:
        yield Beside("train risk (linear loss)", percent(c.risk), _printed(theirs, "train_linear"))
    if errors is not None:
        printed = _printed(theirs, "test_zero_one")
        yield Beside("test error, randomised", percent(errors.randomised), printed)
        covered = "" if c.kind is Predictor.VOTE else " (not covered)"
        yield Beside(f"test error, majority vote{covered}", percent(errors.vote))
        if errors.drawn is not None:
            yield Beside("test error, the drawn network", percent(errors.drawn))
    name = "ln(dQ/dP)" if c.kind is Predictor.DRAWN else "KL(Q|P)"
    shown = "–" if theirs is None or theirs.kl is None else f"{theirs.kl:.0f}"
    yield Beside(name, nats(c.kl), shown)


def _printed(result: paper.PaperResult | None, name: str) -> str:
    return percent(getattr(result, name, None))


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def nats(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
