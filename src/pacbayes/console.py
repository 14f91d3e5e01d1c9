"""How things look on a terminal, and as plain lines where there is none."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pacbayes import paper
from pacbayes.bounds import percent_up
from pacbayes.choices import DRAWN, RANDOMISED, VOTE

if TYPE_CHECKING:
    from pacbayes.certificate import Certificate
    from pacbayes.predictions import Prediction, TestErrors
    from pacbayes.runs import Run

__all__ = [
    "command",
    "duration",
    "remark",
    "shout",
    "show_certificate",
    "show_prediction",
    "show_trained",
    "waiting",
]


def shout(message: str) -> None:
    """A warning nobody can miss, on standard error."""
    bar = "!" * 78
    print(f"{bar}\n{message}\n{bar}", file=sys.stderr, flush=True)


def waiting(message: str) -> AbstractContextManager[object]:
    """A moving sign of life on a terminal, nothing elsewhere."""
    return Console(stderr=True).status(message)


def duration(seconds: float) -> str:
    """A time that somebody waits for.

    >>> duration(0.314), duration(12.3), duration(185), duration(7800)
    ('0.3 s', '12 s', '3 min 5 s', '2 h 10 min')
    """
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def remark(text: str) -> None:
    """What is not a result (how long it took, what to do next) goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def command(*words: object) -> str:
    """A command to copy into a shell."""
    return shlex.join(["pacbayes", *map(str, words)])


def show_trained(runs: Sequence[Run], best: Run, took: str) -> None:
    """What training has reached, where it lies and what comes next."""
    from pacbayes.loop import learned_nothing

    e, of = best.best, ""
    if learned_nothing(e.risk, len(best.record.data.classes)):
        print(f"The network has learned nothing: {best.record.data.n} examples may be too")
        print("few for its size. Try fewer units (--widths 30) or none (--widths none).")
    if len(runs) > 1:
        of = f" Best of {len(runs)} prior scales: {best.settings.prior_scale:g}."
    print(
        f"{took}.{of} Bound {percent_up(e.bound)} (a guide, no certificate "
        f"yet), risk {_percent(e.risk)}, KL {_nats(e.kl)}, in epoch {e.epoch} of "
        f"{best.settings.epochs}."
    )
    print(f"Written to {best.folder}")
    print(f"Next: {command('certify', best.folder)}")


def show_certificate(certificate: Certificate, errors: TestErrors | None, run: Run) -> None:
    """The certificate in words, its numbers, and the paper's beside them where comparable."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    c = certificate
    console.print(f"\n[bold]Certificate: at most {percent_up(c.bound)} error[/bold]", end="")
    console.print(" (vacuous: it says nothing)" if c.vacuous else "")
    sampled = "" if c.draws is None else " and of the networks sampled"
    console.print(
        f"With probability {1 - c.delta:g} over the draw of the {c.n} training examples{sampled},\n"
        f"the {c.predictor},\nerrs on at most this part of new examples. "
        f"Theorem: {c.bound_name}.\n"
    )
    console.print(_steps(c))
    console.print(_comparison(c, errors, run))
    console.print(f"Written to {run.certificate_path(c.predictor)}")


def _steps(c: Certificate) -> Table:
    """Where each percentage point comes from; the parts add up to the bound."""
    table = Table("how it adds up", "points", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    parts = dict(c.contributions)
    kind = "exact" if c.draws is None else "sampled"
    table.add_row(f"training risk, {kind}", _points(parts.pop("risk")), "")
    detail = "" if c.draws is None else f"{c.draws:.0f} draws, {c.monte_carlo}"
    spent = "" if c.draws is None else f", δ = {c.ledger['monte-carlo']:g}"
    table.add_row("Monte-Carlo error", _points(parts.pop("monte-carlo")), detail + spent)
    part = c.ledger.get("pac-bayes", c.ledger.get(f"pac-bayes, {c.bound_name}", c.delta))
    detail = f"{c.bound_name}, n = {c.n}, δ = {part:g}"
    others = {name.split(",")[0] for name in c.ledger if name.startswith("other prior")}
    detail += f", {len(others) + 1} priors tried" if others else ""
    table.add_row("finite sample, whatever is learned", _points(parts.pop("log terms")), detail)
    for layer, points, kl in _layers(c, parts):
        table.add_row(f"what was learned in {layer}", _points(points), f"KL {kl:.1f}")
    return table


def _layers(c: Certificate, parts: dict[str, float]) -> Iterable[tuple[str, float, float]]:
    """Weights and biases of a layer together."""
    layers: dict[str, list[float]] = {}
    for name, kl in c.kl_by_part.items():
        layer = name.rpartition(".")[0].replace("body.layers.", "layer ")
        points, total = layers.get(layer, [0.0, 0.0])
        layers[layer] = [points + parts[f"KL of {name}"], total + kl]
    for layer, (points, kl) in layers.items():
        number = layer.removeprefix("layer ")
        shown = f"layer {int(number) + 1}" if number.isdigit() else "the last layer"
        yield shown, points, kl


def _points(value: float) -> str:
    return f"{100 * value:.3f}"


def _comparison(c: Certificate, errors: TestErrors | None, run: Run) -> Table:
    s = run.settings
    comparable = run.record.data.source.name == "binary-mnist" and len(s.widths) == 3
    paper_result = paper.RESULTS.get((s.objective, s.activation)) if comparable else None
    paper_way = "bound in the paper's way (Catoni, no Monte-Carlo)"
    included = "" if c.draws is None else ", Monte-Carlo included"
    covered = "" if c.predictor == VOTE else " (not covered)"
    rows = [
        (f"certificate{included}", percent_up(c.bound), None),
        *([(paper_way, percent_up(c.catoni), "bound")] if c.predictor == RANDOMISED else []),
        ("held-out bound, were all n examples unseen", percent_up(c.held_out), None),
        ("train risk (linear loss)", _percent(c.risk), "train_linear"),
    ]
    if errors is not None:
        rows += [
            ("test error, randomised", _percent(errors.randomised), "test_zero_one"),
            (f"test error, majority vote{covered}", _percent(errors.vote), None),
        ]
        if errors.drawn is not None:
            rows.append(("test error, the drawn network", _percent(errors.drawn), None))
    name = "ln(dQ/dP)" if c.predictor == DRAWN else "KL(Q|P)"
    rows.append((name, _nats(c.kl), "kl"))
    headings = ["\nbeside", "\nthis run"]
    if paper_result is not None:
        headings.append(f"\npaper, {s.objective} {s.activation}")
    table = Table(*headings, box=None, pad_edge=False)
    for name, ours, field in rows:
        theirs = None if field is None else getattr(paper_result, field, None)
        shown = f"{theirs:.0f}" if field == "kl" and theirs is not None else _percent(theirs)
        table.add_row(*[name, ours, shown][: len(headings)])
    return table


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def _nats(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"


def show_prediction(prediction: Prediction, out: Path | None, *, as_json: bool) -> None:
    """Predicted labels as CSV lines or JSON; which predictor made them goes beside them."""
    if as_json:
        text = json.dumps(asdict(prediction)) + "\n"
    else:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        votes = prediction.votes
        writer.writerow(["label", "vote"] if votes else ["label"])
        for i, label in enumerate(prediction.labels):
            writer.writerow([label, f"{votes[i]:.6f}"] if votes else [label])
        text = buffer.getvalue()
    if out is None:
        sys.stdout.write(text)
    else:
        from pacbayes.checkpoint import write_atomically

        write_atomically(out, text.encode())
    if as_json:
        return
    sys.stdout.flush()  # the remarks below come last
    remark(f"{len(prediction.labels)} predictions by the {prediction.predictor}")
    if prediction.error is not None:
        remark(f"error on the labels given: {_percent(prediction.error)}")
    if out is not None:
        remark(f"written to {out}")
