"""The section on weights: how far each layer has moved from its prior."""

from __future__ import annotations

from itertools import starmap

from pacbayes.report.charts import Mark, bars, histogram
from pacbayes.report.contents import RunContents
from pacbayes.report.layers import Histogram, LayerMovement
from pacbayes.report.markup import Html, element, join
from pacbayes.report.page import Section, card, details, figure

__all__ = ["weights_section"]

_HEADER = (
    *("layer", "weights", "KL, nats", "(μ − μ₀)/σ₀, RMS", "largest"),
    *("σ/σ₀, 5 %", "median", "95 %"),
)


def weights_section(contents: RunContents) -> Section:
    """Show how far the weights of each layer moved from the prior."""
    movements = contents.movements
    text = (
        "How far the posterior N(μ, σ²) of each layer has moved from its prior N(μ₀, σ₀²), weights "
        "and biases together. Bar heights are logarithmic because most weights hardly move."
    )
    if not any(m.scales for m in movements):
        text += " The standard deviations are the prior's: σ = σ₀."
    rows = list(map(_row, movements))
    if not any(m.kl for m in movements):
        text = "The posterior is the prior: no layer has moved."
        numbers = details("Layers", list(_HEADER), rows)
        return Section("weights", "Weights", join(element("p", text), card(numbers)))
    layers = element("div", *starmap(_layer, enumerate(movements, 1)), class_="layers")
    numbers = details("Numbers in these charts", list(_HEADER), rows)
    body = join(element("p", text), card(layers, _kl(movements), numbers))
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


def _kl(movements: tuple[LayerMovement, ...]) -> Html:
    marks = [Mark("kl", m.kl, f"{m.layer}: {m.kl:.4g} nats") for m in movements]
    desc = "; ".join(m.text for m in marks)
    return figure("KL by layer, in nats", bars("kl", "KL by layer", desc, marks, ""))


def _row(m: LayerMovement) -> list[str]:
    numbers = (m.kl, m.rms, m.largest, *m.quantiles)
    return [m.layer, f"{m.weights}", *(f"{value:.4g}" for value in numbers)]
