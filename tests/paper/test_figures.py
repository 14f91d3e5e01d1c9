"""Figures of what a store has."""

from dataclasses import asdict, replace

from matplotlib.image import imread

from pacbayes.files import save_json
from pacbayes.paper import figures
from pacbayes.paper.columns import COLUMNS, chosen
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line
from pacbayes.training.loop import Evaluation


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


def test_every_column_has_a_line_of_its_own(tmp_path, summarised):
    store, sweep = Store(tmp_path), Sweep(COLUMNS, repeats=1)
    evaluation = Evaluation(5, 0.1, 1000.0, 0.2, 6e4, 0.1, 1.0)
    for c in sweep.repeated(store):
        with store.lease(c):
            save_json(store.place(c) / "history.json", [asdict(evaluation)])
            store.finish(c, summarised())
    lines = figures._curves(sweep, store).axes[1].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(COLUMNS)


def test_a_run_that_only_guesses_is_no_best_bound(tmp_path, summarised):
    store, sweep = Store(tmp_path), Sweep(["reinforce-relu"])
    for c in replace(sweep, search="paper").searched():
        learned = c.learning_rate == 0.1 and c.samples > 1
        with store.lease(c):
            store.finish(c, summarised(learned=learned, bound=0.9 if learned else 0.52))
    (line,) = figures._samples(sweep, store).axes[0].lines
    assert line.get_xydata().tolist() == [[10, 90], [50, 90], [100, 90]]


def test_votes_are_drawn_even_where_nobody_errs(summarised):
    perfect = Line("fast-relu", [summarised(test_zero_one=0.0, vote_zero_one=0.0)])
    assert figures._votes([perfect]) is not None
