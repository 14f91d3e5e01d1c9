"""Charts as inline SVG.

Widths are per cent of the page's and heights are pixels, so that text keeps its size on a phone;
colours are classes, so that the style sheet can change them for dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pacbayes.report.markup import Html, element

__all__ = ["Mark", "Part", "Series", "bars", "histogram", "line_chart", "nice_ticks", "stacked"]

_BAR = 44
_ROW = 40
_FOOT = 26  # for the axis' numbers


@dataclass(frozen=True)
class Part:
    """A piece of the stacked bar; `shade` in (0, 1] tells pieces of one class apart."""

    class_: str
    value: float
    title: str
    shade: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A value on an axis with its text, in a row of its own so that no two texts meet."""

    class_: str
    value: float
    text: str


@dataclass(frozen=True)
class Series:
    class_: str
    xs: Sequence[float]
    ys: Sequence[float]


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from the last at or below `low` to the last at or below `high`."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    round_ones = (1, 2, 2.5, 5, 10) if power >= 10 else (1, 2, 5, 10)  # no 2.5 epochs
    step = next(m * power for m in round_ones if span / (m * power) <= most)
    first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def stacked(
    key: str, title: str, desc: str, parts: Sequence[Part], marks: Sequence[Mark], unit: str
) -> Html:
    """Parts end to end on an axis from zero, and other values as dots below them."""
    total = math.fsum(p.value for p in parts)
    top = 1.04 * max(total, *(m.value for m in marks)) or 1.0
    width, height = _at(total, top), float(_BAR)
    shapes = [element("rect", class_="bed", x="0%", width=width, y=0.0, height=height)]
    start = 0.0
    for part in parts:
        hint = element("title", part.title)
        shapes.append(
            element(
                "rect",
                hint,
                class_=f"piece {part.class_}",
                x=_at(start, top),
                width=_at(part.value, top),
                y=0.0,
                height=height,
                fill_opacity=part.shade,
            )
        )
        start += part.value
    rows = _BAR + 14
    bottom = rows + _ROW * len(marks)
    guide = element(
        "line", class_="guide", x1=_at(total, top), x2=_at(total, top), y1=0.0, y2=float(bottom)
    )
    drawn = [_dot(m, top, rows + _ROW * i) for i, m in enumerate(marks)]
    return _figure(
        key, title, desc, bottom + _FOOT, *_axis(top, bottom, unit), guide, *shapes, *drawn
    )


def bars(key: str, title: str, desc: str, marks: Sequence[Mark], unit: str) -> Html:
    """A bar from zero for each value, its text above it."""
    top = 1.04 * max((m.value for m in marks), default=1.0) or 1.0
    drawn = [_bar(m, top, _ROW * i) for i, m in enumerate(marks)]
    bottom = _ROW * len(marks) + 4
    return _figure(key, title, desc, bottom + _FOOT, *_axis(top, bottom, unit), *drawn)


def line_chart(
    key: str,
    title: str,
    desc: str,
    series: Sequence[Series],
    *,
    x_unit: str = "",
    y_unit: str = "",
    height: int = 190,
    marked: float | None = None,
    top: float | None = None,
) -> Html:
    """Lines over a common axis, the vertical one from zero; `marked` is a place on the other."""
    xs = [x for s in series for x in s.xs]
    left, right = min(xs), max(xs)
    ticks = nice_ticks(0.0, top or max(y for s in series for y in s.ys) or 1.0, 5)
    high = max(top or 0.0, ticks[-1], *(y for s in series for y in s.ys)) * 1.06 or 1.0
    head, span = 8, (right - left) or 1.0

    def down(y: float) -> float:
        return head + height * (1 - y / high)

    drawn = []
    for y in ticks:
        drawn.append(element("line", class_="grid", x1="0%", x2="100%", y1=down(y), y2=down(y)))
        drawn.append(
            element(
                "text", _number(y) + y_unit, x=-8.0, y=down(y) + 4, text_anchor="end", class_="tick"
            )
        )
    if marked is not None:
        place = _at(marked - left, span)
        drawn.append(
            element("line", class_="guide", x1=place, x2=place, y1=down(high), y2=down(0.0))
        )
    for s in series:
        drawn.append(_line(s, left, span, head + height, down))
    shown = [x for x in nice_ticks(left, right, 4) if x >= left]
    drawn += [_tick(x, (x - left) / span, head + height + 18, x_unit) for x in shown]
    return _figure(key, title, desc, head + height + _FOOT, *drawn, class_="chart lines")


def histogram(key: str, title: str, desc: str, class_: str, counts: Sequence[int]) -> Html:
    """Counts as bars whose heights are logarithmic, since most weights hardly move."""
    top = math.log1p(max(counts)) or 1.0
    drawn = []
    for i, count in enumerate(counts):
        tall = 60 * math.log1p(count) / top
        drawn.append(element("rect", x=i + 0.06, width=0.88, y=60 - tall, height=tall))
    inner = element(
        "svg",
        *drawn,
        class_=class_,
        viewBox=f"0 0 {len(counts)} 60",
        preserveAspectRatio="none",
        width="100%",
        height=60.0,
    )
    floor = element("line", class_="grid", x1="0%", x2="100%", y1=60.5, y2=60.5)
    return _figure(key, title, desc, 62, inner, floor)


def _figure(
    key: str, title: str, desc: str, height: float, *children: Html, class_: str = "chart"
) -> Html:
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


def _axis(top: float, bottom: float, unit: str) -> list[Html]:
    drawn = []
    for x in nice_ticks(0.0, top, 5):
        place = _at(x, top)
        drawn.append(element("line", class_="grid", x1=place, x2=place, y1=0.0, y2=bottom))
        drawn.append(_tick(x, x / top, bottom + 18, unit))
    return drawn


def _tick(value: float, part: float, y: float, unit: str) -> Html:
    anchor = "start" if part < 0.03 else "end" if part > 0.95 else "middle"
    return element(
        "text", _number(value) + unit, x=_at(part, 1.0), y=y, text_anchor=anchor, class_="tick"
    )


def _dot(mark: Mark, top: float, y: float) -> Html:
    place, middle = _at(mark.value, top), y + 24
    return element(
        "g",
        element("line", class_="track", x1="0%", x2=place, y1=middle, y2=middle),
        element("circle", class_=mark.class_, cx=place, cy=middle, r=5.5),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def _bar(mark: Mark, top: float, y: float) -> Html:
    return element(
        "g",
        element(
            "rect", class_=mark.class_, x="0%", width=_at(mark.value, top), y=y + 18, height=12.0
        ),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def _line(
    s: Series, left: float, span: float, height: float, down: Callable[[float], float]
) -> Html:
    """The line in coordinates of its own, stretched to the width; its ends keep their shape."""
    points = " ".join(
        f"{100 * (x - left) / span:.3f},{down(y):.2f}" for x, y in zip(s.xs, s.ys, strict=True)
    )
    line = element(
        "svg",
        element("polyline", class_=f"line {s.class_}", points=points),
        viewBox=f"0 0 100 {height:g}",
        preserveAspectRatio="none",
        width="100%",
        height=float(height),
        class_="over",
    )
    end = element(
        "circle", class_=s.class_, cx=_at(s.xs[-1] - left, span), cy=down(s.ys[-1]), r=4.0
    )
    return element("g", line, end)


def _at(value: float, top: float) -> str:
    return f"{100 * value / top:.3f}%"


def _number(value: float) -> str:
    return f"{value:,.6g}".replace(",", "\N{THIN SPACE}")
