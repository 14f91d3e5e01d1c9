"""Explain a certificate: in words, as a sum, beside other numbers, and what to know before use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pacbayes.bounds import confidence, percent_up
from pacbayes.certificates.certificate import Certificate
from pacbayes.choices import Predictor
from pacbayes.losses.bounded import units_of
from pacbayes.paper.printed import RESULTS, PaperResult

if TYPE_CHECKING:
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.folders.prediction import TestErrors
    from pacbayes.folders.record import KernelRecord, RunRecord

__all__ = [
    "HELD_OUT",
    "Beside",
    "CertificateWarning",
    "Step",
    "above_constant",
    "beside",
    "largest_class",
    "layer_of",
    "nats",
    "paper_result",
    "percent",
    "remarked",
    "sentence",
    "steps",
]

HELD_OUT = "held-out bound for the same error on n unseen examples"
_TIMES = {2.0: ", twice", 4.0: ", four times"}  # Markov's inequality


class CertificateWarning(UserWarning):
    """A classifier was fitted, but it has no certificate, or one that says little."""


def largest_class(labels: Any, groups: Any = None) -> tuple[Any, float]:
    """Return the most frequent label, and the error of always answering it.

    Args:
        labels: of the training examples.
        groups: label of each example's group; every group then counts the same.
    """
    classes, index = np.unique(np.asarray(labels), return_inverse=True)
    unit, sizes = units_of(groups, len(index))
    share = np.bincount(index, 1 / sizes[unit])
    largest = int(share.argmax())
    return classes[largest], float(1 - share[largest] / share.sum())


def remarked(
    c: Certificate, labels: Any, groups: Any = None, names: Sequence[str] | None = None
) -> Certificate:
    """Return a certificate with what its reader should know; the arguments are `above_constant`'s.

    Costs have no such remark.
    """
    remark = above_constant(c.bound, labels, groups, names) if c.noun == "error" else None
    return replace(c, remarks=() if remark is None else (remark,))


def above_constant(
    bound: float, labels: Any, groups: Any = None, names: Sequence[str] | None = None
) -> str | None:
    """Return a remark if the bound is above the error of always answering the largest class.

    Such a certificate does not show that anything was learned: with 6 % of positives, a classifier
    that finds none of them errs in 6 % of the cases.

    Args:
        bound: of the error.
        labels, groups: as in `largest_class`.
        names: of the classes, if labels are their indices.
    """
    label, error = largest_class(labels, groups)
    label = label if names is None else names[label]
    if bound <= error:
        return None
    return (
        f"The certificate of {percent_up(bound)} is above the {100 * error:.2f} % error of always "
        f"answering '{label}', the largest class: certify the error on each class (--per-class, "
        "per_class=), weight the classes, or give more data."
    )


@dataclass(frozen=True)
class Step:
    """One of the parts that add up to the bound, and its origin."""

    kind: Literal["risk", "monte-carlo", "sample", "kl"]
    label: str
    points: float
    detail: str = ""


@dataclass(frozen=True)
class Beside:
    """A number of the run, and the paper's number if there is one."""

    label: str
    ours: str
    theirs: str = "–"


def sentence(c: Certificate) -> str:
    """Say which predictor the certificate covers, and with which probability."""
    sampled = "" if c.draws is None else " and of the sampled networks"
    new = "" if c.unit == "groups" else " on new examples"
    return (
        f"With probability {confidence(c.delta)} over the choice of the {c.n} {c.unit} in the "
        f"bound set{sampled},\nthis bounds the {c.quantity}{new} of the\n"
        f"{c.predictor}.\nTheorem: {c.theorem}."
    )


def steps(c: Certificate, names: Mapping[str, str] | None = None) -> Iterator[Step]:
    """Break the bound down into parts that add up to it.

    Args:
        names: better names for layers, as `RunRecord.layer_names`.
    """
    parts, theorem = dict(c.contributions), c.row
    label = "training risk" + " of pairs" * theorem.pairs + _TIMES.get(theorem.factor, "")
    kind, any_posterior = "exact" if c.draws is None else "sampled", ", for any posterior"
    if c.kind is Predictor.FIXED:
        label, kind, any_posterior = f"{c.noun} on the bound set", "counted", ""
    yield Step("risk", f"{label}, {kind}", parts.pop("risk"))
    yield Step("monte-carlo", "Monte-Carlo error", parts.pop("monte-carlo"), _draws(c))
    yield Step("sample", f"finite sample{any_posterior}", parts.pop("log terms"), _terms(c))
    for layer, (points, kl) in _layers(c, parts).items():
        shown = (names or {}).get(layer, layer)
        yield Step("kl", f"learned in {shown}", points, f"KL {kl:.1f}")


def _draws(c: Certificate) -> str:
    if c.draws is None:
        return ""
    return f"{c.draws:.0f} draws, {c.monte_carlo}, δ = {c.ledger['monte-carlo']:g}"


def _terms(c: Certificate) -> str:
    part = c.ledger[c.part]
    others = {name.split(",")[0] for name in c.ledger if name.startswith("other prior")}
    tried = f", {len(others) + 1} priors tried" if others else ""
    return f"{c.bound_name}, n = {c.n}, δ = {part:g}{tried}"


def layer_of(part: str) -> str:
    """Return the layer of a Gaussian, given its name in the network.

    >>> layer_of("body.layers.0.bias"), layer_of("body.posterior.1.conv.weight")
    ('layer 1', 'module 1.conv')
    """
    name = part.rpartition(".")[0]
    number = name.removeprefix("body.layers.")
    if name.startswith("body.posterior"):
        return f"module {name.removeprefix('body.posterior').lstrip('.')}".strip()
    return f"layer {int(number) + 1}" if number.isdigit() else "the last layer"


def _layers(c: Certificate, parts: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return points and KL of every layer, weights and biases together."""
    layers: dict[str, tuple[float, float]] = {}
    for name, kl in c.kl_by_part.items():
        points, total = layers.get(layer_of(name), (0.0, 0.0))
        layers[layer_of(name)] = points + parts[f"KL of {name}"], total + kl
    return layers


def paper_result(record: RunRecord | KernelRecord) -> PaperResult | None:
    """Return the paper's column for the run's objective and activation, on its data and depth."""
    if record.kind == "kernel":  # the paper has none
        return None
    s = record.settings
    comparable = record.data.source.name == "binary-mnist" and len(s.widths) == 3
    return RESULTS.get((s.objective, s.activation)) if comparable else None


def beside(
    c: Certificate, errors: TestErrors | None, record: RunRecord | KernelRecord
) -> Iterator[Beside]:
    """List the certificate's numbers with test errors, and the paper's where comparable."""
    theirs = paper_result(record)
    included = "" if c.draws is None else ", Monte-Carlo included"
    yield Beside(f"certificate{included}", percent_up(c.bound))
    if c.kind is Predictor.RANDOMISED:
        paper_way = "bound in the paper's way (Catoni, no Monte-Carlo)"
        yield Beside(paper_way, percent_up(c.catoni), _printed(theirs, "bound"))
    if c.kind is Predictor.FIXED or c.assumptions.group is not None:
        yield Beside(f"{c.noun} on the bound set", percent(c.risk))
    elif c.held_out is None:
        yield Beside("training risk of pairs", percent(c.risk))
    else:
        yield Beside(HELD_OUT, percent_up(c.held_out))
        printed = _printed(theirs, "train_linear")
        yield Beside("training risk (linear loss)", percent(c.risk), printed)
    if errors is not None:
        yield from _test_errors(c, errors, _printed(theirs, "test_zero_one"))
    if c.kind is not Predictor.FIXED:
        name = "ln(dQ/dP)" if c.kind is Predictor.DRAWN else "KL(Q|P)"
        kl = None if theirs is None else theirs.kl
        yield Beside(name, nats(c.kl), "–" if kl is None else f"{kl:.0f}")


def _test_errors(c: Certificate, errors: TestErrors, printed: str) -> Iterator[Beside]:
    yield Beside("test error, randomised", percent(errors.randomised), printed)
    covered = "" if c.kind is Predictor.VOTE else " (not covered)"
    yield Beside(f"test error, majority vote{covered}", percent(errors.vote))
    if errors.drawn is not None:
        yield Beside("test error, the drawn network", percent(errors.drawn))
    if errors.fixed is not None:
        yield Beside("test error, the network at the prior's means", percent(errors.fixed))


def _printed(result: PaperResult | None, name: str) -> str:
    return percent(getattr(result, name, None))


def percent(value: float | None) -> str:
    """Return a share as text in per cent; a dash if there is none."""
    return "–" if value is None else f"{100 * value:.2f} %"


def nats(value: float) -> str:
    """Return a divergence as text in nats."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
