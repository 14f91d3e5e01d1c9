"""`verify` runs where little is installed: no torch, no scikit-learn and no SciPy."""

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import pacbayes
from pacbayes import CertifiedClassifier, PACBayesClassifier, Settings, cli, folders
from pacbayes.data import DataSource
from pacbayes.paper.columns import chosen
from pacbayes.paper.execution import run as run_column
from pacbayes.paper.store import Store

pytestmark = pytest.mark.filterwarnings("ignore::pacbayes.CertificateWarning")  # little training
SOURCE = Path(pacbayes.__file__).parent
NEEDED = ("numpy", "pydantic", "rich", "safetensors", "flint", "typer")  # all that a sceptic needs
BLOCKED = (
    *("torch", "sklearn", "scipy", "joblib", "threadpoolctl", "skops", "pandas", "polars"),
    *("matplotlib", "onnx", "onnxruntime", "distributed", "tensorboard", "mpmath", "pytest"),
)
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
OWN = """
from torch import nn

def build(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ReLU(), nn.Linear(3, outputs))
"""
SMALL = {"epochs": 1, "samples": 1, "evaluation_samples": 1}
FREE = Settings.of("fast", widths=(3,), **SMALL)
LEARNED = Settings.of("fast", widths=(3,), prior_fraction=0.5, prior_epochs=1, **SMALL)
MODULE = Settings.of("fast", widths=(), prior_fraction=0.5, prior_epochs=1, **SMALL)
SIGNS = Settings.of("fast", "sign", widths=(3,), **SMALL)
CANDIDATES = {"linear": LogisticRegression(max_iter=1000), "bayes": GaussianNB()}
# kind of run folder: data, settings, network, and the certificates that are issued in it
NETWORKS = {
    "dense": ("digits", FREE, None, ("small-kl", "first-order", "disintegrated")),
    "ten classes": ("ten-digits", LEARNED, None, ("tandem", "held-out", "disintegrated-fixed")),
    "signs": ("digits", SIGNS, None, ("catoni",)),
    "convolutions": ("digits", MODULE, "conv", ("small-kl", "held-out")),
    "own module": ("digits", MODULE, "own.py:build", ("small-kl", "disintegrated")),
    "table": ("table.csv", LEARNED, None, ("small-kl", "held-out")),
    "groups": ("groups.csv", LEARNED, None, ("held-out",)),
}
CLASSIFIERS = {
    "classifier": {},
    "vote": {"choose": "vote"},
    "abstaining": {"target_error": 0.1},
}
ESTIMATORS = {"estimator": {"preprocessing": None}, "estimator of a table": {"priors": 3}}
KINDS = (*NETWORKS, "sweep", *CLASSIFIERS, "frame", *ESTIMATORS)
TABLES = ("table", "groups", "estimator of a table")  # whose rows only pyarrow can read


def rows(n=200):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    return x, np.where(x[:, 0] + 0.5 * rng.normal(size=n) > 0, "good", "bad")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, code and an own cache."""
    folder = tmp_path_factory.mktemp("sceptic")
    x, y = rows()
    frame = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "red", None), "y": y})
    frame.to_csv(folder / "table.csv", index=False)
    frame.assign(b=np.arange(len(y)) // 2).to_csv(folder / "groups.csv", index=False)
    (folder / "own.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACBAYES_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def folder_of(place):
    """A function that returns a folder of a kind, made once."""
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = make(kind, place / kind.replace(" ", "-"))
        return made[kind]

    return folder


def make(kind, folder):
    if kind in NETWORKS:
        return trained(folder, *NETWORKS[kind])
    if kind == "sweep":
        store, column = Store(folder), replace(chosen("fix-lambda-sign", "digits", 1), repeat=1)
        assert run_column(column, store) == "done"
        return store.place(column)
    x, y = rows()
    if kind in ESTIMATORS:
        model = PACBayesClassifier(widths=(3,), epochs=1, random_state=0, **ESTIMATORS[kind])
        model.fit(x, y).save(folder, x, y)
        return folder
    x = pd.DataFrame(x, columns=list("abcd")) if kind == "frame" else x
    options = CLASSIFIERS.get(kind, {})
    CertifiedClassifier(candidates=CANDIDATES, random_state=0, **options).fit(x, y).save(folder, x)
    return folder


def trained(folder, name, settings, network, bounds):
    source = DataSource(name, group="b" if name == "groups.csv" else None)
    data = folders.featured(source.read(), settings)
    choice = folders.chosen(network, learned=True)
    (run,) = folders.train_all(folder, settings, source, data, choice)
    for bound in bounds:
        certify(run, bound)
    return run.folder


def certify(run, bound):
    data = run.load_data()
    folders.certify_run(run, run.load_network(), data, delta=0.05, bound=bound, samples=2)


@pytest.fixture(scope="module")
def pacbayes_without(tmp_path_factory):
    """A function that runs the command in a process that cannot import some packages."""
    folder = tmp_path_factory.mktemp("blocked")

    def run(blocked, *arguments):
        (folder / "sitecustomize.py").write_text(BLOCK.format(names=set(blocked)))
        path = os.pathsep.join([str(folder), str(SOURCE.parent)])
        command = [sys.executable, "-m", "pacbayes", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_verify_needs_few_packages(kind, folder_of, pacbayes_without):
    blocked = BLOCKED if kind in TABLES else (*BLOCKED, "pyarrow")
    folder = folder_of(kind)
    code, out, err = pacbayes_without(blocked, "verify", folder)
    assert code == 0, err
    assert "Verified" in out
    found = json.loads(pacbayes_without(blocked, "verify", folder, "--json")[1])
    assert found["holds"]
    if kind in NETWORKS:
        asked = len(NETWORKS[kind][-1])
        assert sum(f["bound"] is not None for f in found["findings"]) == asked


def test_what_is_blocked_is_not_found(pacbayes_without):
    """Else the tests above would show nothing."""
    code, out, err = pacbayes_without(BLOCKED, "train", "--dataset", "digits", "--out", "x")
    assert (code, out) == (2, "")
    assert err == "error: this command needs torch, which is not installed: pip install torch\n"


@pytest.mark.parametrize(
    ("kind", "blocked", "missing"),
    [
        ("dense", ("pyarrow", *set(BLOCKED) - {"scipy"}), None),
        ("ten classes", ("pyarrow", *set(BLOCKED) - {"scipy"}), None),
        ("table", set(BLOCKED) - {"scipy"}, None),
        ("ten classes", ("scipy",), "scipy"),
        ("convolutions", ("torch",), "torch"),
        ("own module", ("torch",), "torch"),
        ("classifier", ("sklearn",), "scikit-learn"),
    ],
)
def test_full_names_the_package_that_it_needs(kind, blocked, missing, folder_of, pacbayes_without):
    code, out, err = pacbayes_without(blocked, "verify", folder_of(kind), "--full")
    if missing is None:
        assert code == 0, err
        return
    said = f"this command needs {missing}, which is not installed: pip install {missing}"
    assert (code, err) == (2, f"error: {said}\n")
    assert "Verified" not in out


def test_a_table_names_the_package_that_reads_it(folder_of, pacbayes_without):
    code, _, err = pacbayes_without(("pyarrow",), "verify", folder_of("table"))
    said = "this command needs pyarrow, which is not installed: pip install pyarrow"
    assert (code, err) == (2, f"error: {said}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--version",),
        *((name, "--help") for name in sorted(cli._COMMANDS)),
        ("bound", "small-kl", "--risk", 0.1, "--kl", 5, "--n", 1000),
        ("bound", "catoni", "--risk", 0.1, "--kl", 5, "--n", 1000, "--json"),
    ],
)
def test_these_commands_need_no_more(arguments, pacbayes_without):
    code, out, err = pacbayes_without((*BLOCKED, "pyarrow"), *arguments)
    assert (code, err) == (0, "")
    assert out


def imported(path, *, later):
    """Names of modules that a file imports: when it is imported itself, or later, in a function."""
    tree = ast.parse(path.read_text())
    parts = list(ast.walk(tree))
    types = [n for n in parts if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    functions = [n for n in parts if isinstance(n, ast.FunctionDef)]
    within = {id(node) for function in functions for node in ast.walk(function)}
    skipped = {id(node) for part in types for node in ast.walk(part)}
    for node in parts:
        if id(node) in skipped or (id(node) in within) != later:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def foreign(names):
    found = {name.partition(".")[0] for name in names}
    return found - sys.stdlib_module_names - {"pacbayes", "__future__"}


def file_of(module):
    """Path of one of our modules; None for what is not one."""
    path = SOURCE.parent / module.replace(".", "/")
    found = [p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()]
    return found[0] if found else None


def reached(*modules):
    """Our modules that are imported with some of them, and their files."""
    todo, found = [f"pacbayes.{module}" for module in modules], {}
    while todo:
        module = todo.pop()
        if (path := file_of(module)) is None or module in found:
            continue
        found[module] = path
        names = imported(path, later=False)
        todo += [name for name in names if name.startswith("pacbayes")]
        todo += [module.rpartition(".")[0]]  # a package is imported before its modules
    return found


def test_all_that_verify_imports_does_without_other_packages():
    """Also the parts of it that the folders above do not reach."""
    commands = ("__main__", "cli", "cli.verify", "cli.console", "bounds.domain")
    ours = reached(*commands, "verify")
    assert {
        "pacbayes.data.sample",
        "pacbayes.verify.enclosures",
        "pacbayes.verify.redraw",
    } <= ours.keys()
    needed = {module: foreign(imported(path, later=False)) for module, path in ours.items()}
    assert set.union(*needed.values()) == set(NEEDED), needed


def test_the_verifier_imports_little_later():
    """SciPy for --full, pyarrow for tables, torch for a method that it does not call."""
    ours = reached("verify")
    later = {module: foreign(imported(path, later=True)) for module, path in ours.items()}
    others = {(m.removeprefix("pacbayes."), name) for m, names in later.items() for name in names}
    tables = {f"data.{name}" for name in ("cells", "later", "opening")}
    expected = {("verify.redraw", "scipy"), ("data.dataset", "torch")}
    assert others == expected | {(module, "pyarrow") for module in tables}


def test_the_verifier_has_nothing_of_what_issues():
    """Of the library it imports readers and checks of data, and these import no other package."""
    direct = {
        name.split(".")[1]
        for path in (SOURCE / "verify").glob("*.py")
        for later in (False, True)
        for name in imported(path, later=later)
        if name.startswith("pacbayes.")
    }
    assert direct == {"verify", "data"}
    packages = {m.split(".")[1] for m in reached("verify") if m != "pacbayes" and m.count(".") > 1}
    assert packages == {"verify", "data"}


def test_the_documentation_installs_what_is_needed():
    page = (SOURCE.parents[1] / "docs" / "certificates.md").read_text()
    script = (SOURCE.parents[1] / "benchmarks" / "sceptic.py").read_text()
    named = [name.replace("flint", "python-flint") for name in sorted(NEEDED)]
    (line,) = [line for line in page.splitlines() if line.startswith("sceptic/bin/pip install n")]
    assert sorted(line.split()[2:]) == sorted(named)
    assert ast.unparse(ast.parse(repr(tuple(sorted(named))))) in script.replace('"', "'")
