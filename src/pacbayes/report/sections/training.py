"""The section on training: bound, risk and KL by epoch."""

from __future__ import annotations

from collections.abc import Sequence

from pacbayes.bounds import percent_up
from pacbayes.report.contents import RunContents
from pacbayes.report.line_charts import Series, line_chart
from pacbayes.report.markup import Html, element, join
from pacbayes.report.page import Section, card, details, figure, legend
from pacbayes.report.reading import ByEpoch
from pacbayes.training.loop import Evaluation

__all__ = ["training_section"]

_UNTRAINED = (
    "The posterior was not trained: it is the prior. What the prior learned, it learned from its "
    "own part of the examples. The bound below is a guide, not a certificate."
)


def training_section(contents: RunContents) -> Section:
    """Write how bound, risk and KL changed in training."""
    history, best = contents.history, contents.best
    if history[-1].epoch == 0:
        body = join(element("p", _UNTRAINED), card(_numbers(history)))
        return Section("training", "Training", body)
    text = (
        f"Training ran for {history[-1].epoch} epochs. The dashed line marks epoch {best.epoch}, "
        "which had the best bound; its weights were kept. This bound guides training and is not a "
        "certificate: it is Catoni's bound without the Monte-Carlo error."
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
