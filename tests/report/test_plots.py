"""Pictures are drawn, and show what they say."""

import shutil

import numpy as np
import pytest
from matplotlib.image import imread

import pacbayes
from pacbayes.bounds.planning import Plan, Split
from pacbayes.report import collect, plot, plots

METHODS = ["held-out", "small-kl", "catoni-fixed", "data-free"]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_bounds_are_drawn_beside_each_other(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(plots, "_CELLS", 5)
    out = tmp_path / f"bounds.{suffix}"
    plots.plot_bounds(1000, 0.05, out)
    assert out.stat().st_size > 10_000
    if suffix == "png":
        image = imread(out)[:, :, :3]
        for _, colour in plots._curves_of_bounds().values():  # every curve is to be seen
            wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
            assert (np.abs(image - wanted).max(-1) < 0.02).sum() > 50, colour


def test_bad_arguments_raise_errors(tmp_path):
    with pytest.raises(ValueError, match="n must be at least 8"):
        plots.plot_bounds(3, 0.05, tmp_path / "bounds.png")
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf file, got 'bounds.gif'"):
        plots.plot_bounds(100, 0.05, tmp_path / "bounds.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [0.0, 0.03])
def test_a_plan_has_a_panel_for_each_split_and_a_line_for_each_method(tmp_path, monkeypatch, error):
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, out: figures.append(figure))
    plan = Plan((Split(0.25, error), Split(0.5, error)), data_free_kl=10.0)
    plots.plot_plan(plan, [900], tmp_path / "plan.png")
    (figure,) = figures
    figure.draw_without_rendering()
    for axes, split in zip(figure.axes, plan.splits, strict=True):
        assert axes.get_title() == f"{100 * split.fraction:g} % for the bound"
        lines = {line.get_label(): line for line in axes.lines}
        assert list(lines) == [*METHODS, "error assumed"]
        for x, y in zip(*lines["small-kl"].get_data(), strict=True):
            (row,) = (
                e
                for e in plan.expected(x)
                if (e.method, e.fraction) == ("small-kl", split.fraction)
            )
            assert y == 100 * row.typical
        xs = lines["held-out"].get_xdata()
        assert xs[0] < 900 < xs[-1]


def test_the_picture_of_a_run_keeps_its_texts_apart(made, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, out: figures.append(figure))
    plots.plot_history(made, tmp_path / "run.png")
    (figure,) = figures
    figure.draw_without_rendering()
    left, right = (axes.get_tightbbox() for axes in figure.axes)
    assert left.x1 < right.x0
    assert left.x0 >= 0
    assert right.x1 <= figure.bbox.x1
    for axes in figure.axes:
        assert axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1


@pytest.mark.parametrize(
    ("kind", "panels"),
    [("mean", 1), ("vote", 1), ("costs", 1), ("table-model", 1), ("store", 2)],
)
def test_every_bound_of_a_model_or_a_store_is_a_bar(kind, panels, folder_of, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plots, "_save", lambda figure, out: figures.append(figure))
    plot(folder_of(kind), tmp_path / "bars.svg")
    (figure,) = figures
    assert len(figure.axes) == panels
    lengths = [bar.get_width() for axes in figure.axes for bar in axes.patches]
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    if kind == "store":
        assert "paper: 21.7 %" in texts
        return
    (shown,), found = collect(folder_of(kind)).certificates, pacbayes.load(folder_of(kind))
    assert shown.unit.times * found.certificate_.bound in lengths
    assert any(text.endswith(f"≤ {found.certificate_.shown}") for text in texts)
    assert len(texts) == {"mean": 4, "vote": 4}.get(kind, 1)


def test_what_does_not_hold_is_not_drawn(folder_of, tmp_path):
    shutil.copytree(folder_of("mean"), tmp_path / "model")
    path = tmp_path / "model" / "certificate.json"
    path.write_text(path.read_text().replace('"bound": 0.1', '"bound": 0.0'))
    with pytest.raises(ValueError, match="does not hold; see pacbayes verify"):
        plot(tmp_path / "model", tmp_path / "bars.svg")
    path.unlink()
    with pytest.raises(ValueError, match=r"has no bound to draw\. The certificate was withheld"):
        plot(tmp_path / "model", tmp_path / "bars.svg")
    assert not (tmp_path / "bars.svg").exists()


def test_a_run_without_evaluations_has_no_picture(copied, tmp_path):
    (copied.folder / "history.json").write_text("[]")
    with pytest.raises(ValueError, match=r"history\.json has no evaluations; train the run"):
        plots.plot_history(copied, tmp_path / "run.png")
    (copied.folder / "history.json").unlink()
    with pytest.raises(ValueError, match="no evaluations yet; train the run with pacbayes train"):
        plots.plot_history(copied, tmp_path / "run.png")
