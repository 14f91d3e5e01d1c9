"""Tables: ours, the paper's, and how far apart."""

import csv
import io
import math

import pytest

from pacbayes.paper import printed
from pacbayes.paper.columns import chosen, grid
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import Line, grid_table, lines, render, table1, table2


@pytest.fixture
def relu(summarised):
    def line(*bounds):
        result = printed.COLUMNS["fix-lambda-relu"]
        return Line("fix-lambda-relu", [summarised(bound=b, kl=2400.0) for b in bounds], result)

    return line


def test_differences_are_in_units_of_both_sigmas(relu, summarised):
    line = relu(0.154, 0.156, 0.161)
    sigma = math.hypot(0.0036055, 0.0004)
    assert line.mean("bound") == pytest.approx(0.157)
    assert line.difference("bound") == pytest.approx((0.157 - 0.155) / sigma, rel=1e-3)
    assert relu(0.2).difference("bound") == pytest.approx(0.045 / 0.0004)
    assert Line("fast-relu", [summarised(bound=0.1)]).difference("bound") is None
    vacuous = [summarised(bound=1.0 - b) for b in (1e-12, 3e-12)]  # 100.00 ± 0.00, all of them
    assert Line("r", vacuous, printed.COLUMNS["reinforce-sign"]).difference("bound") is None


def test_the_first_table_has_ours_and_the_papers(relu, summarised):
    rows = table1([relu(0.154, 0.156), Line("fast-relu", [summarised(bound=0.125)])])
    text = dict(zip(rows[0][8:11], rows[1][8:11], strict=True))
    assert text == {"bound 0-1": "15.50 ± 0.14", "paper": "15.5", "Δ/σ": "+0.0"}
    assert rows[2][8:11] == ["12.50", "–", "–"]
    other = table1([Line("mlp", [summarised()])])
    assert "paper" not in other[0]  # on other data there is nothing to stand beside


def test_the_second_table_has_the_settings(tmp_path, relu):
    sweep, store = Sweep(["fix-lambda-relu", "mlp"]), Store(tmp_path)
    found = [relu(0.15), Line("mlp", [], printed.COLUMNS["mlp"])]
    rows = table2(found, sweep, store)
    assert rows[1] == ["fix-lambda-relu", "0.1", "50", "3", "2400", "2363", "2.0", "30", "0"]
    assert rows[2] == ["mlp", "0.001", "–", "3", "–", "–", "–", "10", "0"]


def test_lines_are_what_the_store_has(tmp_path, summarised):
    from dataclasses import replace

    store, sweep = Store(tmp_path), Sweep(["mlp"], "digits", 2, repeats=3)
    done = replace(chosen("mlp", "digits", 2), repeat=2)
    with store.lease(done):
        store.finish(done, summarised())
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


def test_repeats_that_never_learned_are_counted_apart(tmp_path, summarised):
    from dataclasses import replace

    store, sweep = Store(tmp_path), Sweep(["mlp"], "digits", 2, repeats=2)
    for repeat, learned in ((1, True), (2, False)):
        c = replace(chosen("mlp", "digits", 2), repeat=repeat)
        with store.lease(c):
            store.finish(c, summarised(learned=learned, train_linear=0.1 * repeat))
    (line,) = lines(sweep, store)
    assert (len(line.summaries), line.hopeless) == (1, 1)
    assert table1([line])[1][1] == "1 (+1 hopeless)"


def test_the_grid_has_every_point_the_best_and_the_papers(tmp_path, summarised):
    store, sweep = Store(tmp_path), Sweep(["mlp", "pbg"], search="paper")
    for c in grid("mlp", "binary-mnist", None):
        with store.lease(c):
            loss = {0.1: 0.5, 0.01: 0.02, 0.001: 0.03}[c.learning_rate]
            store.finish(c, summarised(train_linear=loss, learned=loss < 0.45))
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


def test_markdown_is_a_table_whatever_is_in_it():
    """A rule needs a hyphen beside its colon, and a bar in a cell is not one between cells."""
    lines = render([["a", "b", ""], ["|x|", "1", ""]], "markdown").splitlines()
    assert lines[1] == "| --- | -: | -: |"
    assert lines[2].startswith(r"| \|x\| |")


def test_the_second_table_has_the_spread_of_kl_and_time(tmp_path, summarised):
    summaries = [summarised(kl=k, seconds=s) for k, s in ((100.0, 60.0), (104.0, 120.0))]
    rows = table2([Line("fast-relu", summaries)], Sweep(["fast-relu"]), Store(tmp_path))
    assert (rows[1][4], rows[1][6]) == ("102 ± 3", "1.5 ± 0.7")


def test_of_a_failure_the_table_has_the_first_line(tmp_path):
    store, sweep = Store(tmp_path), Sweep(["mlp"], search="paper")
    with store.lease(sweep.searched()[0]):
        store.fail(sweep.searched()[0], "DataError: no files\nTried: here\nand there")
    assert grid_table(sweep, store)[1][-1] == "DataError: no files"
