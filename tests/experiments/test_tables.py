"""Tables: ours, the paper's, and how far apart."""

import csv
import io
import math

import pytest

from pacbayes import paper
from pacbayes.experiments.columns import chosen, grid
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep
from pacbayes.experiments.tables import Line, grid_table, lines, render, table1, table2


def summary(**changes):
    base = dict.fromkeys(("bound", "kl", "vote_zero_one", "small_kl", "certificate"))
    given = {
        "learned": True,
        "train_linear": 0.06,
        "test_zero_one": 0.07,
        "seconds": 120.0,
        "attempts": 1,
    }
    return base | given | changes


def relu(*bounds):
    printed = paper.COLUMNS["fix-lambda-relu"]
    return Line("fix-lambda-relu", [summary(bound=b, kl=2400.0) for b in bounds], printed)


def test_differences_are_in_units_of_both_sigmas():
    line = relu(0.154, 0.156, 0.161)
    sigma = math.hypot(0.0036055, 0.0004)
    assert line.mean("bound") == pytest.approx(0.157)
    assert line.difference("bound") == pytest.approx((0.157 - 0.155) / sigma, rel=1e-3)
    assert relu(0.2).difference("bound") == pytest.approx(0.045 / 0.0004)
    assert Line("fast-relu", [summary(bound=0.1)]).difference("bound") is None
    vacuous = [summary(bound=1.0 - b) for b in (1e-12, 3e-12)]  # 100.00 ± 0.00, all of them
    assert Line("r", vacuous, paper.COLUMNS["reinforce-sign"]).difference("bound") is None


def test_the_first_table_has_ours_and_the_papers():
    rows = table1([relu(0.154, 0.156), Line("fast-relu", [summary(bound=0.125)])])
    text = dict(zip(rows[0][8:11], rows[1][8:11], strict=True))
    assert text == {"bound 0-1": "15.50 ± 0.14", "paper": "15.50", "Δ/σ": "+0.0"}
    assert rows[2][8:11] == ["12.50", "–", "–"]
    other = table1([Line("mlp", [summary()])])
    assert "paper" not in other[0]  # on other data there is nothing to stand beside


def test_the_second_table_has_the_settings(tmp_path):
    sweep, store = Sweep(["fix-lambda-relu", "mlp"]), Store(tmp_path)
    found = [relu(0.15), Line("mlp", [], paper.COLUMNS["mlp"])]
    rows = table2(found, sweep, store)
    assert rows[1] == ["fix-lambda-relu", "0.1", "50", "3", "2400", "2363", "2.0", "30", "0"]
    assert rows[2] == ["mlp", "0.001", "–", "3", "–", "–", "–", "10", "0"]


def test_lines_are_what_the_store_has(tmp_path):
    from dataclasses import replace

    store, sweep = Store(tmp_path), Sweep(["mlp"], "digits", 2, repeats=3)
    done = replace(chosen("mlp", "digits", 2), repeat=2)
    with store.lease(done):
        store.finish(done, summary())
    (line,) = lines(sweep, store)
    assert len(line.summaries) == 1
    assert line.printed is None


def test_every_format_has_every_cell():
    rows = [["column", "bound ± σ"], ["a_b", "12.5 ± 0.1"], ["longer", "–"]]
    assert list(csv.reader(io.StringIO(render(rows, "csv")))) == rows
    markdown = render(rows, "markdown").splitlines()
    assert markdown[0] == "| column |  bound ± σ |"
    assert set(markdown[1]) <= set("|-: ")
    latex = render(rows, "latex")
    assert r"a\_b & 12.5 $\pm$ 0.1 \\" in latex
    assert r"longer & -- \\" in latex
    assert latex.startswith(r"\begin{tabular}{lr}")
    assert len({len(line) for line in render(rows, "terminal").splitlines()}) == 1


def test_repeats_that_never_learned_are_counted_apart(tmp_path):
    from dataclasses import replace

    store, sweep = Store(tmp_path), Sweep(["mlp"], "digits", 2, repeats=2)
    for repeat, learned in ((1, True), (2, False)):
        c = replace(chosen("mlp", "digits", 2), repeat=repeat)
        with store.lease(c):
            store.finish(c, summary(learned=learned, train_linear=0.1 * repeat))
    (line,) = lines(sweep, store)
    assert (len(line.summaries), line.hopeless) == (1, 1)
    assert table1([line])[1][1] == "1 (+1 hopeless)"


def test_the_grid_has_every_point_the_best_and_the_papers(tmp_path):
    store, sweep = Store(tmp_path), Sweep(["mlp", "pbg"], search="paper")
    for c in grid("mlp", "binary-mnist", None):
        with store.lease(c):
            loss = {0.1: 0.5, 0.01: 0.02, 0.001: 0.03}[c.learning_rate]
            store.finish(c, summary(train_linear=loss, learned=loss < 0.45))
    first, *points = next(grid("pbg", "binary-mnist", None)), *grid("pbg", "binary-mnist", None)
    with store.lease(first):
        store.fail(first, "FloatingPointError: training diverged in epoch 5")
    rows = grid_table(sweep, store)
    assert [row[:5] + row[-1:] for row in rows[1:4]] == [
        ["mlp", "0.1", "–", "3", "50.00", "ended early"],
        ["mlp", "0.01", "–", "3", "2.00", "best"],
        ["mlp", "0.001", "–", "3", "3.00", "the paper's"],
    ]
    assert len(rows) == 1 + 3 + len(points)
    assert rows[4][-1] == "FloatingPointError: training diverged in epoch 5"
    assert rows[5] == ["pbg", "0.1", "1", "2", *"––––", "not run"]
    assert len({len(row) for row in rows}) == 1
