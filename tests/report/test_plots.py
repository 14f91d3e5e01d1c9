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
        for _, colour in plots._BOUNDS.values():  # every curve is to be seen
            wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
            assert (np.abs(image - wanted).max(-1) < 0.02).sum() > 50, colour


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="n must be at least 8"):
        plots.plot_bounds(3, 0.05, tmp_path / "bounds.png")
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf file, got 'bounds.gif'"):
        plots.plot_bounds(100, 0.05, tmp_path / "bounds.gif")
    assert list(tmp_path.iterdir()) == []
