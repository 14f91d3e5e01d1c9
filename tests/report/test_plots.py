"""Pictures are drawn, and show what they say."""

import numpy as np
import pytest
from matplotlib.image import imread

from pacbayes.report import plots


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


def test_a_run_without_evaluations_has_no_picture(copied, tmp_path):
    (copied.folder / "history.json").write_text("[]")
    with pytest.raises(ValueError, match=r"history\.json has no evaluations; train the run"):
        plots.plot_history(copied, tmp_path / "run.png")
    (copied.folder / "history.json").unlink()
    with pytest.raises(ValueError, match="no evaluations yet; train the run with pacbayes train"):
        plots.plot_history(copied, tmp_path / "run.png")
