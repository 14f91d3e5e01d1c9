"""What needs an optional package says so in one line, before any work is done."""

import sys

import pytest

from pacbayes.extras import EXTRAS, missing, require

PLOTS = "needs matplotlib: pip install 'pacbayes[plots]'"


@pytest.fixture
def without_matplotlib(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_that_is_installed_is_not_missed(extra):
    assert missing(extra) == []
    require(extra, "a test")


def test_every_missing_package_is_named(monkeypatch):
    for name in ("onnx", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ValueError, match=r"^a test needs onnx, onnxruntime: pip install 'pacbayes\[export\]'$"
    ):
        require("export", "a test")


def test_a_folder_is_not_a_package(tmp_path, monkeypatch):
    (tmp_path / "curves").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTRAS, "plots", ("curves",))
    assert missing("plots") == ["curves"]


@pytest.mark.usefixtures("without_matplotlib")
def test_compare_needs_matplotlib(run_cli, tmp_path):
    code, out, err = run_cli("compare", "--out", tmp_path / "bounds.png")
    assert (code, out, err) == (2, "", f"error: a plot {PLOTS}\n")


@pytest.mark.usefixtures("without_matplotlib")
def test_a_plan_needs_matplotlib_only_for_its_picture(run_cli, tmp_path):
    plan = ("plan", "--n", 1000, "--error", 0.03)
    assert run_cli(*plan)[0] == 0
    code, out, err = run_cli(*plan, "--plot", tmp_path / "plan.png")
    assert (code, out, err) == (2, "", f"error: a plot {PLOTS}\n")


@pytest.mark.usefixtures("without_matplotlib")
def test_a_run_is_trained_but_not_drawn_without_matplotlib(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    train = ("train", "--dataset", csv, "--widths", "none", "--epochs", "1", "--out", run)
    assert run_cli(*train)[0] == 0
    code, out, err = run_cli("plot", run, "--out", tmp_path / "run.png")
    assert (code, out, err) == (2, "", f"error: a plot {PLOTS}\n")


@pytest.mark.usefixtures("without_matplotlib")
def test_figures_are_refused_before_their_runs_are_made(run_cli, tmp_path):
    code, out, err = run_cli("reproduce", "figures", "--dataset", "digits", "--out", tmp_path / "s")
    assert (code, out, err) == (2, "", f"error: reproduce figures {PLOTS}\n")
    assert not (tmp_path / "s").exists()
