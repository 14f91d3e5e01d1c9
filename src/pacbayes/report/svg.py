"""Parts that every chart shares: its frame, its ticks, and how numbers become coordinates.

Widths are percentages of the page's and heights are pixels, so that text keeps its size on a phone.
Colours are classes, so that the style sheet can change them for dark screens.
"""

from __future__ import annotations

import math

from pacbayes.report.markup import Html, element

__all__ = ["FOOT", "chart_frame", "nice_ticks", "number", "position", "tick"]

FOOT = 26  # pixels below a chart for the numbers of its axis


def chart_frame(
    key: str, title: str, desc: str, height: float, *children: Html, class_: str = "chart"
) -> Html:
    """Return an SVG image with a title and a description for screen readers."""
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", desc, id=f"{key}-desc"),
        *children,
        class_=class_,
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width="100%",
        height=float(height),
    )


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers, from the last one at or below `low` to the last at or below `high`."""
    step = _nice_step((high - low) or 1.0, most)
    first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _nice_step(span: float, most: int) -> float:
    """Return the smallest round step of which at most `most` fit into the span."""
    power = 10.0 ** math.floor(math.log10(span / most))
    factors = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)  # avoids 2.5 epochs
    return next(m * power for m in factors if span / (m * power) <= most)


def tick(text: str, fraction: float, y: float) -> Html:
    """Return the text of a tick below an axis, kept inside the chart at both ends."""
    anchor = "start" if fraction < 0.03 else "end" if fraction > 0.95 else "middle"
    return element("text", text, x=position(fraction, 1.0), y=y, text_anchor=anchor, class_="tick")


def position(value: float, top: float) -> str:
    """Return the place of a value on an axis from 0 to `top`, as a percentage of the width."""
    return f"{100 * value / top:.3f}%"


def number(value: float) -> str:
    """Format the number of a tick, with thin spaces between thousands."""
    return f"{value:,.6g}".replace(",", "\N{THIN SPACE}")
