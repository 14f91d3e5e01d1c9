"""Bar charts as inline SVG: a stacked bar, a bar for each value, and a histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from pacbayes.report.markup import Html, element
from pacbayes.report.svg import FOOT, chart_frame, nice_ticks, number, position, tick

__all__ = ["Mark", "Part", "bars", "histogram", "stacked"]

_BAR = 44
_ROW = 40
_MARGIN = 1.04  # the axis is longer than the longest bar
_HISTOGRAM = 60


@dataclass(frozen=True)
class Part:
    """A piece of a stacked bar. `shade` in (0, 1] distinguishes pieces of the same class."""

    class_: str
    value: float
    title: str
    shade: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A value on an axis with its label, in a row of its own so that labels cannot overlap."""

    class_: str
    value: float
    text: str


def stacked(
    key: str, title: str, desc: str, parts: Sequence[Part], marks: Sequence[Mark], unit: str
) -> Html:
    """Draw parts end to end on an axis from zero, and other values as dots below them."""
    total = math.fsum(p.value for p in parts)
    top = _MARGIN * max([total, *(m.value for m in marks)]) or 1.0
    rows = _BAR + 14
    bottom = rows + _ROW * len(marks)
    end = position(total, top)
    return chart_frame(
        key,
        title,
        desc,
        bottom + FOOT,
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
            x=position(start, top),
            width=position(part.value, top),
            y=0.0,
            height=float(_BAR),
            fill_opacity=part.shade,
        )
        for part, start in zip(parts, starts, strict=False)  # one start too many
    ]


def _dot(mark: Mark, top: float, y: float) -> Html:
    place, middle = position(mark.value, top), y + 24
    return element(
        "g",
        element("line", class_="track", x1="0%", x2=place, y1=middle, y2=middle),
        element("circle", class_=mark.class_, cx=place, cy=middle, r=5.5),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def bars(key: str, title: str, desc: str, marks: Sequence[Mark], unit: str) -> Html:
    """Draw a bar from zero for each value, with its label above it."""
    top = _MARGIN * max((m.value for m in marks), default=1.0) or 1.0
    drawn = [_bar(m, top, _ROW * i) for i, m in enumerate(marks)]
    bottom = _ROW * len(marks) + 4
    return chart_frame(key, title, desc, bottom + FOOT, *_axis(top, bottom, unit), *drawn)


def _bar(mark: Mark, top: float, y: float) -> Html:
    width = position(mark.value, top)
    return element(
        "g",
        element("rect", class_=mark.class_, x="0%", width=width, y=y + 18, height=12.0),
        element("text", mark.text, class_="label", x="0%", y=y + 12),
    )


def _axis(top: float, bottom: float, unit: str) -> list[Html]:
    drawn = []
    for x in nice_ticks(0.0, top, 5):
        place = position(x, top)
        drawn.append(element("line", class_="grid", x1=place, x2=place, y1=0.0, y2=bottom))
        drawn.append(tick(number(x) + unit, x / top, bottom + 18))
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
    return chart_frame(key, title, desc, _HISTOGRAM + 2, inner, floor)
