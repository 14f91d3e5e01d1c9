"""Figures of what a store has."""

from dataclasses import replace

from matplotlib.image import imread

from pacbayes.experiments import figures
from pacbayes.experiments.columns import chosen
from pacbayes.experiments.execution import run
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep


def test_figures_are_drawn_of_what_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_T", (2, 4))
    store, sweep = Store(tmp_path), Sweep(["mlp", "fast-relu"], "digits", 2, repeats=1)
    assert [p.stem for p in figures.draw_figures(sweep, store)] == ["variances"]
    for column in sweep.columns:
        run(replace(chosen(column, "digits", 2), repeat=1), store)
    drawn = list(figures.draw_figures(sweep, store))
    assert [p.stem for p in drawn] == ["curves", "votes", "variances"]
    for path in drawn:
        assert imread(path).std() > 0.05
