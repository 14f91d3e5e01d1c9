"""The README's code runs, and its numbers equal the committed results."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pacbayes.bounds import percent_up, small_kl
from pacbayes.data.idx import cache_folder
from pacbayes.paper.columns import COLUMNS
from pacbayes.paper.printed import RESULTS as RESULTS_OF_PAPER
from pacbayes.paper.store import Store, read_archive
from pacbayes.paper.sweep import Sweep
from pacbayes.paper.tables import grid_table, lines, render, table1, table2
from pacbayes.training.loop import VACUOUS
from pacbayes.verify import verify

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
README = (ROOT / "README.md").read_text()
TASKS = {  # rows of the results table: the paper's column and the committed certificate
    "binary MNIST, sign": ("fix-lambda-sign", "binary-sign"),
    "binary MNIST, sign, smooth": (None, "binary-sign-smooth"),
    "binary MNIST, sigmoid": ("fix-lambda-sigmoid", "binary-sigmoid"),
    "binary MNIST, relu": ("fix-lambda-relu", "binary-relu"),
    "binary MNIST, relu, smooth": (None, "binary-relu-smooth"),
    "binary MNIST, relu, one hidden layer": (None, "binary-one"),
    "binary MNIST, relu, one hidden layer, smooth": (None, "binary-one-smooth"),
    "binary MNIST, relu, learned prior": (None, "binary-relu-learned"),
    "ten-class MNIST, relu, learned prior": (None, "ten-relu-learned"),
    "binary Fashion-MNIST, relu": (None, "fashion-relu"),
    "binary Fashion-MNIST, relu, learned prior": (None, "fashion-relu-learned"),
}
KERNELS = {  # further rows: kernel networks, by their data
    "binary MNIST, kernel": "binary-mnist",
    "ten-class MNIST, kernel": "mnist",
    "binary Fashion-MNIST, kernel": "binary-fashion-mnist",
    "ten-class Fashion-MNIST, kernel": "fashion-mnist",
    "CIFAR-10, kernel": "cifar-10",
}
SMOOTH = [name for _, name in TASKS.values() if name.endswith("-smooth")]
LEARNED = [name for _, name in TASKS.values() if name.endswith("-learned")]
OTHER_NUMBERS = {"3.10", "2006.12228", "0.03"}  # oldest Python, the paper's address, a folder


def script(path):
    """Load a script that is not part of the package."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run_folder(name):
    """Return the folder of a committed certificate, which its text file names."""
    text = (RESULTS / "certificates" / f"{name}.txt").read_text()
    return ROOT / re.search(r"pacbayes certify (\S+)", text).group(1)


def committed(name, file="certificate"):
    return json.loads((run_folder(name) / f"{file}.json").read_text())


@pytest.fixture(scope="module")
def reproduced():
    return {line.column: line for line in lines(Sweep(COLUMNS), Store(RESULTS / "paper"))}


@pytest.fixture(scope="module")
def rows(reproduced):
    """Build the results table from committed files."""
    found = []
    for task, (column, name) in TASKS.items():
        paper, ours = "–", "–"
        if column:
            line = reproduced[column]
            paper = f"{100 * line.printed.bound:.1f} %"
            ours = f"{100 * line.mean('bound'):.2f} ± {100 * line.sigma('bound'):.2f} %"
        certificate = f"[{percent_up(committed(name)['bound'])}](results/certificates/{name}.txt)"
        error = f"{100 * committed(name, 'test')['randomised']:.2f} %"
        found.append(f"| {task} | {paper} | {ours} | {certificate} | {error} |")
    return [*found, *rows_of_kernels()]


def rows_of_kernels():
    """Return the last committed measurement of every kernel network at seed 0."""
    lines_ = (ROOT / "benchmarks" / "kernel.jsonl").read_text().splitlines()
    latest = {r["data"]: r for r in map(json.loads, lines_) if r["seed"] == 0}
    for task, name in KERNELS.items():
        certificate = f"[{percent_up(latest[name]['bound'])}](benchmarks/kernel.md)"
        error = f"{100 * latest[name]['test']['randomised']:.2f} %"
        yield f"| {task} | – | – | {certificate} | {error} |"


def gaps_to_hold_out():
    """Return the gaps of CertifiedClassifier's certificates to hold-out's on the tables."""
    text = (ROOT / "benchmarks" / "tables.jsonl").read_text()
    found = {(r["set"], r["seed"], r["contender"]): r for r in map(json.loads, text.splitlines())}
    runs = {key[:2] for key in found}
    assert len({name for name, _ in runs}) == 18
    pairs = ((found[(*run, "certified")], found[(*run, "hold-out")]) for run in runs)
    return np.array([ours["certificate"] - theirs["certificate"] for ours, theirs in pairs])


@pytest.fixture(scope="module")
def sentences(reproduced):
    """Build the statements with numbers around the table from committed files."""
    one, gaps = committed("binary-one"), gaps_to_hold_out()
    kls = sorted(committed(name)["kl"] for name in LEARNED)
    first, second = (
        f"{percent_up(committed(name, 'certificate-fixed')['bound'])} instead of "
        f"{percent_up(committed(name)['bound'])}"
        for name in ("binary-relu-learned", "ten-relu-learned")
    )
    sign, sigmoid, repeats = (
        f"{100 * reproduced[f'fast-{units}'].mean('certificate'):.2f} %"
        for units in ("sign", "sigmoid", "relu")
    )
    paper = f"{100 * RESULTS_OF_PAPER['fix-lambda', 'relu'].bound:.1f} %"
    smooth = percent_up(committed("binary-one-smooth")["bound"])
    *_, kernel, error = next(rows_of_kernels()).strip("| ").split(" | ")  # binary MNIST
    return [
        f"at most {second.partition(' ')[0]} % error on MNIST",  # the report's first
        f"the paper's {paper}, [{smooth}](results/certificates/binary-one-smooth.txt)",
        f"{kernel} for [a Gaussian process](docs/kernels.md)",
        f"which errs on {error} of the test images",
        f"{100 * (1 - one['delta']):g} % by default",
        f"δ = {one['delta']:g}.",
        f"average {sign} (sign), {sigmoid} (sigmoid) and {repeats} (relu)",
        f"a KL of {kls[0]:.1f} to {kls[-1]:.1f} nats",
        f"issues it: {first}, and {second}.",
        f"its certificate is {-100 * gaps.mean():.2f} points below that of a plain 25 %",
        f"and lower in {(gaps < 0).mean():.0%} of the runs".replace("%", " %"),
        f"{percent_up(committed('binary-conv')['bound'])} on binary MNIST and "
        f"{percent_up(committed('ten-conv')['bound'])} on ten classes.",
        f"{percent_up(committed('binary-conv-learned', 'certificate-fixed')['bound'])} and "
        f"{percent_up(committed('ten-conv-learned', 'certificate-fixed')['bound'])} for seven",
        f"{percent_up(committed('cifar-residual-learned', 'certificate-fixed')['bound'])} on CIFAR",
    ]


def prose():
    """Return the README without its code blocks, every line break a space."""
    return " ".join(re.sub(r"```.*?```", "", README, flags=re.DOTALL).split())


def test_the_python_example_runs_and_certifies_something(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    names = {}
    exec(code, names)
    assert capsys.readouterr().out.startswith("error at most 0.")
    assert names["certificate"].bound < 0.35


def test_every_link_and_folder_exists():
    links = re.findall(r"\]\(([^)#]+)", README) + re.findall(r'src="([^"]+)"', README)
    paths = {link for link in links if not link.startswith("https:")}
    paths |= set(re.findall(r"`pacbayes verify (results/\S+)`", README))
    assert "docs/start.md" in paths
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_two_commands_are_make_run_and_make_test():
    assert re.findall(r"^make (\w+)", README, re.MULTILINE) == ["run", "test"]


def test_the_results_table_equals_the_committed_results(rows):
    shown = [line for line in README.splitlines() if line.startswith("|")]
    assert shown[2:] == rows
    assert len({len(line.split("|")) for line in shown}) == 1


def test_statements_with_numbers_equal_the_committed_results(sentences):
    assert [sentence for sentence in sentences if sentence not in prose()] == []


def test_no_other_number_is_in_the_readme(rows, sentences):
    """Decimal numbers and percentages; each must come from a committed result."""
    number = re.compile(r"\d+\.\d+|\d+(?= %)")
    checked = set(number.findall(" ".join([*rows, *sentences])))
    assert set(number.findall(prose())) == checked | OTHER_NUMBERS


def test_certificates_in_the_table_are_made_as_described():
    for _, name in TASKS.values():
        settings = committed(name, "run")["settings"]
        assert committed(name)["delta"] == 0.05
        assert settings["widths"] == [100] * (1 if name.startswith("binary-one") else 3)
        assert settings["seed"] == 0
        assert settings.get("prior_fraction", 0) == (0.5 if name in LEARNED else 0)
        assert settings.get("prior_smooth", 0) == (2 if name in SMOOTH else 0)
        assert settings.get("basis", "none") == ("eigen" if name in SMOOTH else "none")
        assert ("other prior 127, pac-bayes" in committed(name)["ledger"]) == (name in SMOOTH)
    for statement in ("three hidden layers of 100 units", "seed 0.", "half of the images"):
        assert statement in prose()


def test_the_table_of_runs_is_made_from_the_committed_results():
    folders = sorted(path.parent for path in RESULTS.glob("*/test.json"))
    assert folders
    table = script(RESULTS / "table.py").table(folders)
    assert table == (RESULTS / "table.md").read_text()


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "sign"])
def test_committed_certificates_meet_what_is_promised(activation):
    folder = RESULTS / f"fast-{activation}"
    certificate = json.loads((folder / "certificate.json").read_text())
    run = json.loads((folder / "run.json").read_text())
    assert certificate["n"] == 60_000
    assert certificate["delta"] == 0.05
    assert certificate["draws"] == 6_000_000
    assert certificate["bound"] <= (0.145 if activation == "relu" else 0.20)
    assert certificate["provenance"]["prior_sha256"] == run["prior_sha256"]


def test_the_page_of_certificates_is_made_from_the_committed_ones():
    make = script(RESULTS / "certificates" / "make.py")
    found = []
    for name, folder, _, task, prior, published in make.ROWS:
        for text in (f"{name}.txt", f"{name}-drawn.txt"):
            assert (make.HERE / text).read_text().count("Verified: at most") == 1
        assert run_folder(name).is_relative_to(RESULTS / (folder or "certificates"))
        found.append((name, run_folder(name), task, prior, published))
    assert (make.HERE / "README.md").read_text() == make.page(found)


@pytest.mark.skipif(not (cache_folder() / "mnist").exists(), reason="MNIST is not in the cache")
@pytest.mark.parametrize("name", ["binary-relu-learned", "ten-relu-learned"])
def test_published_certificates_can_be_checked_by_anyone(name):
    """Their weights are in the repository."""
    folder = RESULTS / "certificates" / name / "scale-0.03"
    for certificate in ("certificate.json", "certificate-drawn.json", "certificate-fixed.json"):
        assert all(finding.holds for finding in verify(folder / certificate))


def test_the_reproduced_tables_are_those_of_the_committed_store():
    sweep, store = Sweep(COLUMNS), Store(RESULTS / "paper")
    found = lines(sweep, store)
    for name, rows in (("table1", table1(found)), ("table2", table2(found, sweep, store))):
        text = render(rows, "markdown")
        assert text == (store.folder / f"{name}.md").read_text()
    assert (store.folder / "table1.md").read_text() in (store.folder / "README.md").read_text()


def test_the_readings_of_optim_lambda_are_computed_from_the_committed_store():
    text = script(ROOT / "benchmarks" / "optim_lambda.py").page()
    assert text == (ROOT / "benchmarks" / "optim_lambda.md").read_text()


def test_the_page_of_directions_is_made_from_its_committed_runs():
    directions = script(ROOT / "benchmarks" / "directions.py")
    text = directions.table(directions.read())
    assert text == (ROOT / "benchmarks" / "directions.md").read_text()
    pixels, basis, smooth = (percent_up(r["bound"]) for r in directions.read())
    assert f"the basis alone gives {basis}:" in (ROOT / "docs" / "priors.md").read_text()
    ones = (committed(name)["bound"] for name in ("binary-one", "binary-one-smooth"))
    assert [pixels, smooth] == [percent_up(bound) for bound in ones]


@pytest.mark.parametrize("name", ["one", "relu", "sign"])
def test_the_pages_on_priors_and_the_paper_show_the_committed_smooth_certificates(name):
    priors, paper = ((ROOT / "docs" / f"{page}.md").read_text() for page in ("priors", "paper"))
    plain, smooth = f"binary-{name}", f"binary-{name}-smooth"
    files = ("certificate", "certificate-drawn")
    cells = (
        " / ".join(percent_up(committed(row, file)["bound"]) for file in files)
        for row in (plain, smooth)
    )
    assert f" | {' | '.join(cells)} |" in priors
    if name != "one":
        for row in (plain, smooth):
            assert percent_up(committed(row)["bound"]) in paper


def test_the_page_of_pbgnet_is_made_from_its_committed_runs():
    text = script(ROOT / "benchmarks" / "pbgnet.py").page()
    assert text == (ROOT / "benchmarks" / "pbgnet.md").read_text()


def test_what_was_reproduced_agrees_with_the_paper_or_is_better(reproduced):
    for line in reproduced.values():
        assert len(line.summaries) >= 3
        if line.column.startswith(("fix-lambda", "optim-lambda")):
            assert line.mean("bound") <= line.printed.bound + 0.005
        if line.column.startswith("reinforce"):
            assert min(line.values("bound")) > VACUOUS
        if line.column == "mlp":
            assert line.mean("test_zero_one") == pytest.approx(0.0182, abs=0.003)
        if line.column == "pbg":
            assert line.mean("bound") == pytest.approx(0.408, abs=0.015)


def test_small_kl_of_the_committed_runs_pays_for_the_priors_of_resets(reproduced):
    for line in reproduced.values():
        for s in line.summaries:
            if s.small_kl is not None:
                again = small_kl(s.train_linear, s.kl, n=60_000, delta=0.05 / 5)
                assert s.small_kl == pytest.approx(again, abs=1e-12)


def test_every_committed_run_has_the_name_of_its_configuration():
    """Runs of earlier editions have other names, and do not count."""
    archives = map(read_archive, (RESULTS / "paper" / "runs").glob("*.jsonl"))
    runs = {key: run for archive in archives for key, run in archive.items()}
    assert runs
    assert [key for key, run in runs.items() if run.configuration.key != key] == []


def test_the_search_is_that_of_the_committed_store():
    (names,) = re.findall(r"^GRIDS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    store = Store(RESULTS / "paper")
    sweep = Sweep(names.split(","), search="paper")
    assert all(sweep.winner(column, store) for column in sweep.columns)  # every point was made
    rows = grid_table(sweep, store)
    assert render(rows, "markdown") == (store.folder / "grid.md").read_text()


def test_every_committed_result_has_a_command_and_a_page():
    page = (RESULTS / "README.md").read_text()
    targets = set(re.findall(r"`make ([\w-]+)`", page))
    assert targets <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    stems = {path.stem for path in (ROOT / "benchmarks").iterdir() if path.is_file()}
    stems |= {path.stem for path in RESULTS.iterdir()} - {"README"}
    assert [stem for stem in stems if f"/{stem.partition('-')[0]}" not in page] == []
    pages = {path.name for path in (ROOT / "docs" / "measurements").glob("*.md")} - {"index.md"}
    assert [name for name in pages if f"| `{name}` |" not in page] == []


def test_the_top_of_the_repository_has_at_most_twelve_names():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    tops = {path.split("/")[0] for path in listed.stdout.splitlines()}
    assert len([name for name in tops if not name.startswith(".")]) <= 12
