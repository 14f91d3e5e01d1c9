"""How a run got where it is: its epochs, and how far its weights went from the prior."""

from __future__ import annotations

from pacbayes.bounds import percent_up
from pacbayes.report.charts import Mark, Series, bars, histogram, line_chart
from pacbayes.report.contents import Histogram, Movement, RunFacts
from pacbayes.report.markup import Html, element, join
from pacbayes.report.page import Section, card, details, figure, legend

__all__ = ["training", "weights"]


def training(facts: RunFacts) -> Section:
    history, best = facts.history, facts.best
    epochs = [e.epoch for e in history]
    bound = Series("monte-carlo", epochs, [100 * e.bound for e in history])
    risk = Series("risk", epochs, [100 * e.risk for e in history])
    kl = Series("kl", epochs, [e.kl for e in history])
    errors = line_chart(
        "training-errors",
        "Bound and training risk over epochs",
        f"At epoch {best.epoch} the bound is {percent_up(best.bound)} "
        f"and the training risk {100 * best.risk:.2f} %.",
        [bound, risk],
        y_unit=" %",
        marked=best.epoch,
    )
    nats = line_chart(
        "training-kl",
        "KL over epochs",
        f"At epoch {best.epoch} the KL is {best.kl:.1f} nats.",
        [kl],
        marked=best.epoch,
    )
    names = legend(
        ("monte-carlo", f"bound {percent_up(best.bound)}"),
        ("risk", f"training risk {100 * best.risk:.2f} %"),
    )
    rows = [
        [f"{e.epoch}", f"{100 * e.risk:.3f}", f"{e.kl:.2f}", f"{100 * e.bound:.3f}", f"{e.lam:.6g}"]
        for e in history
    ]
    header = ["epoch", "training risk, %", "KL, nats", "bound, %", "λ"]
    body = join(
        element(
            "p",
            f"Over {epochs[-1]} epochs; the dashed line is epoch {best.epoch}, whose bound is the "
            "best and whose weights were kept. This bound guides training: it is Catoni's, without "
            "Monte-Carlo error, and no certificate.",
        ),
        card(
            element(
                "div",
                figure(names, errors),
                figure(legend(("kl", f"KL(Q|P) {best.kl:.1f} nats")), nats),
                class_="pair",
            ),
            details("The numbers of these curves", header, rows),
        ),
    )
    return Section("training", "Training", body)


def weights(facts: RunFacts) -> Section:
    learned = any(m.scales for m in facts.movements)
    text = (
        "How far the posterior N(μ, σ²) of each layer went from its prior N(μ₀, σ₀²), weights and "
        "biases together. Heights are logarithmic, since most weights hardly move."
    )
    if not learned:
        text += " The scales are the prior's: σ = σ₀."
    shown = [_layer(i, m) for i, m in enumerate(facts.movements, 1)]
    body = join(
        element("p", text),
        card(element("div", *shown, class_="layers"), _kl(facts), _numbers(facts)),
    )
    return Section("weights", "Weights", body)


def _layer(i: int, m: Movement) -> Html:
    drawn = [_histogram(f"means-{i}", f"(μ − μ₀)/σ₀ in {m.layer}", "risk", m.means)]
    if m.scales is not None:
        drawn.append(_histogram(f"scales-{i}", f"σ/σ₀ in {m.layer}", "kl", m.scales))
    return element("div", element("h3", m.layer.capitalize()), *drawn)


def _histogram(key: str, title: str, class_: str, h: Histogram) -> Html:
    quantity = title.partition(" in ")[0]
    desc = f"{sum(h.counts)} numbers from {h.low:.3g} to {h.high:.3g}"
    ends = [element("span", f"{v:.3g}") for v in (h.low, 0.5 * (h.low + h.high), h.high)]
    return join(
        element("p", quantity, class_="quantity"),
        histogram(key, title, desc, class_, h.counts),
        element("div", *ends, class_="ends", aria_hidden="true"),
    )


def _kl(facts: RunFacts) -> Html:
    marks = [Mark("kl", m.kl, f"{m.layer}: {m.kl:.4g} nats") for m in facts.movements]
    desc = "; ".join(m.text for m in marks)
    return figure("KL by layer, in nats", bars("kl", "KL by layer", desc, marks, ""))


def _numbers(facts: RunFacts) -> Html:
    header = [
        "layer",
        "weights",
        "KL",
        "(μ − μ₀)/σ₀, rms",
        "largest",
        "σ/σ₀, 5 %",
        "median",
        "95 %",
    ]
    rows = [
        [
            m.layer,
            f"{m.weights}",
            f"{m.kl:.4g}",
            f"{m.rms:.4g}",
            f"{m.largest:.4g}",
            *(f"{q:.4g}" for q in m.quantiles),
        ]
        for m in facts.movements
    ]
    return details("The numbers of these layers", header, rows)
