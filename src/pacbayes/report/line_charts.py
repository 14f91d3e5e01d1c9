"""Line charts as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from pacbayes.report.markup import Html, element
from pacbayes.report.svg import FOOT, chart_frame, nice_ticks, number, position, tick

__all__ = ["Series", "line_chart"]

_HEAD = 8  # pixels above the plot
_MARGIN = 1.06  # the vertical axis is longer than the largest value


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
        return cls(min(xs), max(xs), _MARGIN * highest, height)

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
    return chart_frame(
        key,
        title,
        desc,
        scale.floor + FOOT,
        *_grid(scale, y_unit),
        *([] if marked is None else [_guide(scale, marked)]),
        *(_line(s, scale) for s in series),
        *_x_ticks(scale, x_name, x_unit),
        class_="chart lines",
    )


def _grid(scale: _Scale, unit: str) -> Iterator[Html]:
    for value in nice_ticks(0.0, scale.high / _MARGIN, 5):
        y = scale.down(value)
        yield element("line", class_="grid", x1="0%", x2="100%", y1=y, y2=y)
        text = number(value) + unit
        yield element("text", text, x=-8.0, y=y + 4, text_anchor="end", class_="tick")


def _guide(scale: _Scale, x: float) -> Html:
    place = position(scale.across(x), 1.0)
    return element("line", class_="guide", x1=place, x2=place, y1=float(_HEAD), y2=scale.floor)


def _x_ticks(scale: _Scale, name: str, unit: str) -> Iterator[Html]:
    y = scale.floor + 18
    if name:
        yield element("text", name, x=-8.0, y=y, text_anchor="end", class_="tick")
    for x in nice_ticks(scale.left, scale.right, 4):
        if x >= scale.left:
            yield tick(number(x) + unit, scale.across(x), y)


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
    return element("g", line, element("circle", class_=s.class_, cx=position(x, 1.0), cy=y, r=4.0))
