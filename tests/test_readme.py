"""What the README shows is what happens and what was measured."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from pacbayes.bounds import percent_up, small_kl
from pacbayes.data.idx import cache_folder
from pacbayes.experiments.columns import COLUMNS
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep
from pacbayes.experiments.tables import grid_table, lines, render, table1, table2
from pacbayes.training.loop import VACUOUS
from pacbayes.verify import verify

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs_and_certifies_something(capsys):
    code, classifier = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    names = {}
    exec(code, names)
    assert capsys.readouterr().out.startswith("bound 0.")
    assert names["certificate"].bound < 0.35
    exec(classifier, names)
    assert re.match(r"at most \d\.\d\d % error with probability 0.95", capsys.readouterr().out)


def test_the_table_is_made_of_the_committed_results():
    specification = importlib.util.spec_from_file_location("table", ROOT / "results" / "table.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    folders = sorted(path.parent for path in (ROOT / "results").glob("*/test.json"))
    assert folders
    assert module.table(folders) == (ROOT / "results" / "table.md").read_text()


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_committed_certificates_meet_what_is_promised(activation):
    folder = ROOT / "results" / f"fast-{activation}"
    certificate = json.loads((folder / "certificate.json").read_text())
    run = json.loads((folder / "run.json").read_text())
    assert certificate["n"] == 60_000
    assert certificate["delta"] == 0.05
    assert certificate["draws"] == 6_000_000
    assert certificate["bound"] <= (0.145 if activation == "relu" else 0.20)
    assert certificate["provenance"]["prior_sha256"] == run["prior_sha256"]


def test_the_certificate_shown_is_the_committed_one():
    certificate = json.loads((ROOT / "results" / "fast-relu" / "certificate.json").read_text())
    assert f"Certificate: at most {percent_up(certificate['bound'])} error" in README


def test_the_certificates_shown_are_the_committed_ones():
    path = ROOT / "results" / "certificates" / "make.py"
    specification = importlib.util.spec_from_file_location("make", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    rows = []
    for name, folder, _, task, prior, beside in module.ROWS:
        text = (path.parent / f"{name}.txt").read_text()
        drawn = (path.parent / f"{name}-drawn.txt").read_text()
        assert text.count("The certificate holds") == drawn.count("The certificate holds") == 1
        run = ROOT / re.search(r"pacbayes certify (\S+)", text).group(1)
        assert run.is_relative_to(ROOT / "results" / (folder or "certificates"))
        rows.append((name, run, task, prior, beside))
    table = module.table(rows)
    assert table in README
    assert table.replace("(results/certificates/", "(") in (path.parent / "README.md").read_text()


@pytest.mark.skipif(not (cache_folder() / "mnist").exists(), reason="MNIST is not in the cache")
@pytest.mark.parametrize("name", ["binary-relu-learned", "ten-relu-learned"])
def test_published_certificates_can_be_checked_by_anyone(name):
    """With the weights that are in the repository."""
    folder = ROOT / "results" / "certificates" / name / "scale-0.03"
    for certificate in ("certificate.json", "certificate-drawn.json"):
        assert all(finding.holds for finding in verify(folder / certificate))


def test_the_reproduced_tables_are_those_of_the_committed_store():
    sweep, store = Sweep(COLUMNS), Store(ROOT / "results" / "paper")
    found = lines(sweep, store)
    for name, rows in (("table1", table1(found)), ("table2", table2(found, sweep, store))):
        text = render(rows, "markdown")
        assert text == (store.folder / f"{name}.md").read_text()
    assert (store.folder / "table1.md").read_text() in README


def test_what_was_reproduced_agrees_with_the_paper_or_is_better():
    for line in lines(Sweep(COLUMNS), Store(ROOT / "results" / "paper")):
        assert len(line.summaries) >= 3
        if line.column.startswith(("fix-lambda", "optim-lambda")):
            assert line.mean("bound") <= line.printed.bound + 0.005
        if line.column.startswith("reinforce"):
            assert min(line.values("bound")) > VACUOUS
        if line.column == "mlp":
            assert line.mean("test_zero_one") == pytest.approx(0.0182, abs=0.003)
        if line.column == "pbg":
            assert line.mean("bound") == pytest.approx(0.408, abs=0.015)


def test_small_kl_of_the_committed_runs_pays_for_the_priors_of_resets():
    for line in lines(Sweep(COLUMNS), Store(ROOT / "results" / "paper")):
        for s in line.summaries:
            if s.small_kl is not None:
                again = small_kl(s.train_linear, s.kl, n=60_000, delta=0.05 / 5)
                assert s.small_kl == pytest.approx(again, abs=1e-12)


def test_the_search_is_that_of_the_committed_store():
    (names,) = re.findall(r"^GRIDS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    store = Store(ROOT / "results" / "paper")
    sweep = Sweep(names.split(","), search="paper")
    assert all(sweep.winner(column, store) for column in sweep.columns)  # every point was made
    rows = grid_table(sweep, store)
    assert render(rows, "markdown") == (store.folder / "grid.md").read_text()
