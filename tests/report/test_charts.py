"""Charts show their numbers at the right place."""

import pytest

from pacbayes.report.charts import (
    Mark,
    Part,
    Series,
    bars,
    histogram,
    line_chart,
    nice_ticks,
    stacked,
)


def per_cent(text):
    assert text.endswith("%")
    return float(text[:-1])


def test_ticks_are_round_and_few():
    assert nice_ticks(0, 1.04, 5) == [0, 0.5, 1]
    assert nice_ticks(0, 31, 5) == [0, 10, 20, 30]
    assert nice_ticks(0.1, 100, 4) == [0, 25, 50, 75, 100]
    assert nice_ticks(1, 10, 4) == [0, 5, 10]
    assert nice_ticks(5, 200, 5) == [0, 50, 100, 150, 200]
    assert nice_ticks(0, 0.003, 5) == [0, 0.001, 0.002, 0.003]


def test_pieces_lie_end_to_end_and_reach_the_dashed_line(read):
    parts = [Part("risk", 3.0, "a"), Part("kl", 2.0, "b", 0.5), Part("kl", 0.0, "c")]
    marks = [Mark("ink", 10.0, "far: 10"), Mark("ink", 1.0, "near: 1")]
    page = read(stacked("k", "title", "desc", parts, marks, " %"))
    pieces = [e for e in page.all("rect") if e["class"].startswith("piece")]
    end = 0.0
    for piece, part in zip(pieces, parts, strict=True):
        assert per_cent(piece["x"]) == pytest.approx(end, abs=0.01)
        end += per_cent(piece["width"])
        assert end <= 100
        assert piece["text"] == part.title
    guide = next(e for e in page.all("line") if e["class"] == "guide")
    assert per_cent(guide["x1"]) == pytest.approx(end, abs=0.01)
    far, near = (per_cent(e["cx"]) for e in page.all("circle"))
    assert far == pytest.approx(10 * near, rel=1e-3)
    assert far == pytest.approx(2 * end, rel=1e-3)  # one axis for both


def test_lines_rise_with_their_values(read):
    page = read(line_chart("k", "t", "d", [Series("risk", [5, 10, 20], [0.0, 2.0, 1.0])]))
    points = [tuple(map(float, p.split(","))) for p in page.all("polyline")[0]["points"].split()]
    xs, ys = zip(*points, strict=True)
    assert xs == pytest.approx((0, 100 / 3, 100), abs=0.01)
    assert ys[0] > ys[2] > ys[1]  # coordinates grow downwards
    assert ys[0] - ys[1] == pytest.approx(2 * (ys[0] - ys[2]), abs=0.03)


def test_a_line_may_have_one_point(read):
    page = read(line_chart("k", "t", "d", [Series("risk", [5], [0.0])], x_name="epoch"))
    assert page.all("circle")[0]["cx"] == "0.000%"
    assert [e["text"] for e in page.all("text")[-2:]] == ["epoch", "5"]


def test_lines_with_the_same_top_have_the_same_scale(read):
    charts = [line_chart("k", "t", "d", [Series("kl", [1, 2], [1.0, y])], top=4) for y in (2, 3)]
    starts = [read(chart).all("polyline")[0]["points"].split()[0] for chart in charts]
    assert starts[0] == starts[1]


def test_a_place_on_the_axis_is_marked(read):
    page = read(line_chart("k", "t", "d", [Series("risk", [0, 4], [1.0, 2.0])], marked=1))
    (guide,) = (e for e in page.all("line") if e["class"] == "guide")
    assert guide["x1"] == guide["x2"] == "25.000%"


def test_lengths_of_bars_are_proportional_to_their_values(read):
    page = read(bars("k", "t", "d", [Mark("kl", 4.0, "a"), Mark("kl", 1.0, "b")], ""))
    long, short = (per_cent(e["width"]) for e in page.all("rect"))
    assert long == pytest.approx(4 * short, rel=1e-3)
    read(bars("k", "t", "d", [Mark("kl", 0.0, "a")], ""))


def test_a_bound_reaches_farther_than_its_bar(read):
    page = read(bars("k", "t", "d", [Mark("risk", 2.0, "a", 8.0), Mark("risk", 4.0, "b")], ""))
    bound, own, other = page.all("rect")
    assert (bound["class"], own["class"]) == ("sample", "risk")
    assert per_cent(bound["width"]) == pytest.approx(4 * per_cent(own["width"]), rel=1e-3)
    assert per_cent(other["width"]) == pytest.approx(2 * per_cent(own["width"]), rel=1e-3)
    assert per_cent(bound["width"]) < 100


def test_a_histogram_has_a_bar_for_each_count(read):
    heights = [
        float(e["height"]) for e in read(histogram("k", "t", "d", "kl", [0, 3, 1])).all("rect")
    ]
    assert heights[0] == 0
    assert heights[1] == 60
    assert heights[2] == pytest.approx(30)  # ln 2 / ln 4
