"""Charts as inline SVG: stacked bars, bars, histograms and lines.

Widths are percentages of the page's and heights are pixels, so that text keeps its size on a phone.
Colours are classes, so that the style sheet can change them for dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from pacbayes.report.markup import Html, element

__all__ = ["Mark", "Part", "Series", "bars", "histogram", "line_chart", "nice_ticks", "stacked"]

_FOOT = 26  # pixels below a chart for the numbers of its axis
_HEAD = 8  # pixels above lines
_BAR = 44
_ROW = 40
_HISTOGRAM = 60
_MARGIN = 1.04  # the axis is longer than the longest bar
_ABOVE = 1.06  # the vertical axis is longer than the largest value


@dataclass(frozen=True)
class Part:
    """A piece of a stacked bar. `shade` in (0, 1] distinguishes pieces of the same class."""

    class_: str
    value: float
    title: str
    shade: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A value on an axis with its label, in a row of its own so that labels cannot overlap.

    `reach` is a larger value, such as a bound, that a bar shows behind it.
    """

    class_: str
    value: float
    text: str
    reach: float = 0.0


def stacked(
    key: str, title: str, desc: str, parts: Sequence[Part], marks: Sequence[Mark], unit: str
) -> Html:
    """Draw parts end to end on an axis from zero, and other values as dots below them."""
    total = math.fsum(p.value for p in parts)
    top = _MARGIN * max([total, *(m.value for m in marks)]) or 1.0
    rows = _BAR + 14
    bottom = rows + _ROW * len(marks)
    end = _position(total, top)
    return _frame(
        key,
        title,
        desc,
        bottom + _FOOT,
        *_axis(top, bottom, unit),
        element("line", class_="guide", x1=end, x2=end, y1=0.0, y2=float(bottom)),
        element("rect", class_="bed", x="0%", width=end, y=0.0, height=float(_BAR)),
        *_pieces(parts, top),
        *(_dot(m, top, rows + _ROW * i) for i, m in enumerate(marks)),
    )


def _pieces(parts: Sequence[Part], top: float) -> list[Html]:
    starts = accumulate((p.value for p in parts), initial=0.0)
    return [
        element(
            "rect",
            element("title", part.title),
            class_=f"piece {part.class_}",
            x=_position(start, top),
            width=_position(part.value, top),
            y=0.0,
            height=float(_BAR),
            fill_opacity=part.shade,
        )
        for part, start in zip(parts, starts, strict=False)  # one start too many
    ]


def _dot(mark: Mark, top: float, y: float) -> Html:
    place, middle = _position(mark.value, top), y + 24
    return element(
        "g",
        element("line", class_="track", x1="0%", x2=place, y1=middle, y2=middle),
        element("circle", class_=mark.class_, cx=place, cy=middle, r=5.5),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def bars(key: str, title: str, desc: str, marks: Sequence[Mark], unit: str) -> Html:
    """Draw a bar from zero for each value, with its label above it."""
    top = _MARGIN * max((max(m.value, m.reach) for m in marks), default=1.0) or 1.0
    drawn = [_bar(m, top, _ROW * i) for i, m in enumerate(marks)]
    bottom = _ROW * len(marks) + 4
    return _frame(key, title, desc, bottom + _FOOT, *_axis(top, bottom, unit), *drawn)


def _bar(mark: Mark, top: float, y: float) -> Html:
    ends = [("sample", mark.reach)] if mark.reach else []
    return element(
        "g",
        *(
            element("rect", class_=c, x="0%", width=_position(value, top), y=y + 18, height=12.0)
            for c, value in [*ends, (mark.class_, mark.value)]
        ),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def _axis(top: float, bottom: float, unit: str) -> list[Html]:
    drawn = []
    for x in nice_ticks(0.0, top, 5):
        place = _position(x, top)
        drawn.append(element("line", class_="grid", x1=place, x2=place, y1=0.0, y2=bottom))
        drawn.append(_tick(_number(x) + unit, x / top, bottom + 18))
    return drawn


def histogram(key: str, title: str, desc: str, class_: str, counts: Sequence[int]) -> Html:
    """Draw counts as bars of logarithmic height, because most weights hardly move."""
    top = math.log1p(max(counts)) or 1.0
    heights = [_HISTOGRAM * math.log1p(count) / top for count in counts]
    drawn = [
        element("rect", x=i + 0.06, width=0.88, y=_HISTOGRAM - height, height=height)
        for i, height in enumerate(heights)
    ]
    inner = element(
        "svg",
        *drawn,
        class_=class_,
        viewBox=f"0 0 {len(counts)} {_HISTOGRAM}",
        preserveAspectRatio="none",
        width="100%",
        height=float(_HISTOGRAM),
    )
    y = _HISTOGRAM + 0.5
    floor = element("line", class_="grid", x1="0%", x2="100%", y1=y, y2=y)
    return _frame(key, title, desc, _HISTOGRAM + 2, inner, floor)


@dataclass(frozen=True)
class Series:
    """A line: the points (x, y), and the class that gives it its colour."""

    class_: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True)
class _Scale:
    """How values become coordinates. The vertical axis starts at zero."""

    left: float
    right: float
    high: float
    height: int

    @classmethod
    def of(cls, series: Sequence[Series], top: float, height: int) -> _Scale:
        xs = list(chain.from_iterable(s.xs for s in series))
        ys = chain.from_iterable(s.ys for s in series)
        highest = max(top, *ys) or 1.0
        return cls(min(xs), max(xs), _ABOVE * highest, height)

    @property
    def floor(self) -> float:
        return float(_HEAD + self.height)

    def across(self, x: float) -> float:
        """Return the place of x as a fraction of the width."""
        return (x - self.left) / ((self.right - self.left) or 1.0)

    def down(self, y: float) -> float:
        """Return the place of y in pixels from the top."""
        return _HEAD + self.height * (1 - y / self.high)


def line_chart(
    key: str,
    title: str,
    desc: str,
    series: Sequence[Series],
    *,
    x_name: str = "",
    x_unit: str = "",
    y_unit: str = "",
    height: int = 190,
    marked: float | None = None,
    top: float = 0.0,
) -> Html:
    """Draw lines over a common axis.

    Args:
        x_name: what the horizontal axis shows, written before its numbers.
        marked: a place on the horizontal axis, marked by a dashed line.
        top: the value that the vertical axis reaches at least; charts with the same `top` and no
            larger value have the same scale.
    """
    scale = _Scale.of(series, top, height)
    return _frame(
        key,
        title,
        desc,
        scale.floor + _FOOT,
        *_grid(scale, y_unit),
        *([] if marked is None else [_guide(scale, marked)]),
        *(_line(s, scale) for s in series),
        *_x_ticks(scale, x_name, x_unit),
        class_="chart lines",
    )


def _grid(scale: _Scale, unit: str) -> Iterator[Html]:
    for value in nice_ticks(0.0, scale.high / _ABOVE, 5):
        y = scale.down(value)
        yield element("line", class_="grid", x1="0%", x2="100%", y1=y, y2=y)
        text = _number(value) + unit
        yield element("text", text, x=-8.0, y=y + 4, text_anchor="end", class_="tick")


def _guide(scale: _Scale, x: float) -> Html:
    place = _position(scale.across(x), 1.0)
    return element("line", class_="guide", x1=place, x2=place, y1=float(_HEAD), y2=scale.floor)


def _x_ticks(scale: _Scale, name: str, unit: str) -> Iterator[Html]:
    y = scale.floor + 18
    if name:
        yield element("text", name, x=-8.0, y=y, text_anchor="end", class_="tick")
    for x in nice_ticks(scale.left, scale.right, 4):
        if x >= scale.left:
            yield _tick(_number(x) + unit, scale.across(x), y)


def _line(s: Series, scale: _Scale) -> Html:
    """Draw the line in its own coordinates, stretched to the width; its end stays a circle."""
    points = " ".join(
        f"{100 * scale.across(x):.3f},{scale.down(y):.2f}" for x, y in zip(s.xs, s.ys, strict=True)
    )
    line = element(
        "svg",
        element("polyline", class_=f"line {s.class_}", points=points),
        viewBox=f"0 0 100 {scale.floor:g}",
        preserveAspectRatio="none",
        width="100%",
        height=scale.floor,
        class_="over",
    )
    x, y = scale.across(s.xs[-1]), scale.down(s.ys[-1])
    return element("g", line, element("circle", class_=s.class_, cx=_position(x, 1.0), cy=y, r=4.0))


def _frame(
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


def _tick(text: str, fraction: float, y: float) -> Html:
    """Return the text of a tick below an axis, kept inside the chart at both ends."""
    anchor = "start" if fraction < 0.03 else "end" if fraction > 0.95 else "middle"
    return element("text", text, x=_position(fraction, 1.0), y=y, text_anchor=anchor, class_="tick")


def _position(value: float, top: float) -> str:
    """Return the place of a value on an axis from 0 to `top`, as a percentage of the width."""
    return f"{100 * value / top:.3f}%"


def _number(value: float) -> str:
    """Format the number of a tick, with thin spaces between thousands."""
    return f"{value:,.6g}".replace(",", "\N{THIN SPACE}")
