"""Imports point one way, and the public API is what it says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pacbayes

SOURCE = Path(pacbayes.__file__).parent
ROOMS = [  # each may import from earlier lines only
    {
        "spelling",
        "choices",
        "defaults",
        "devices",
        "extras",
        "features",
        "losses",
        "moved",
        "paper.printed",
        "randomness",
    },
    {"files", "settings", "bounds", "data"},
    {"networks", "verify"},
    {"engine"},
    {"training"},
    {"certificates"},
    {"sklearn"},
    {"models"},
    {"folders"},
    {"paper", "export"},
    {"bench"},
    {"report"},
    {"cli"},
]
UPWARD = (  # methods `save`, which hand an object to what makes folders of it
    "models/classifier.py: folders",
    "sklearn/classifier.py: folders",
)
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}


def imports(path):
    """Rooms of ours that a file imports when run (types-only imports do not count)."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in skipped:
            continue
        for alias in node.names:
            if (name := f"{node.module}.{alias.name}").startswith("pacbayes."):
                yield room(name.split(".")[1:])


def room(parts):
    """The room of a module: what the paper prints are plain numbers, apart from its runs."""
    return "paper.printed" if list(parts[:2]) == ["paper", "printed"] else parts[0]


def test_every_room_is_on_the_map():
    rooms = {p.stem for p in SOURCE.glob("*.py")} | {p.parent.name for p in SOURCE.glob("*/*.py")}
    assert rooms - {"__init__", "__main__"} | {"paper.printed"} == set(LEVEL)


def test_the_root_has_at_most_twelve_modules():
    assert len([p for p in SOURCE.glob("*.py") if not p.stem.startswith("__")]) <= 12


def test_imports_point_one_way():
    for path in SOURCE.rglob("*.py"):
        own = room(path.relative_to(SOURCE).with_suffix("").parts)
        if own in ("__init__", "__main__"):  # the door and the command
            continue
        for other in imports(path):
            if other != own and f"{path.relative_to(SOURCE)}: {other}" not in UPWARD:
                assert LEVEL[other] < LEVEL[own], f"{path.name} imports {other}"


def test_every_public_name_is_there_and_nothing_else():
    assert sorted(pacbayes.__all__) == sorted(n for ns in pacbayes._HOMES.values() for n in ns)
    for name in pacbayes.__all__:
        assert getattr(pacbayes, name) is not None


def test_the_command_line_starts_without_torch():
    code = "import sys, pacbayes.cli; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_unpickles():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert "pickle" not in text.replace("allow_pickle=False", "")
        assert "torch.load" not in text


METHODS = {"fit", "predict", "predict_proba", "decision_function", "transform", "fit_transform"}
METHODS |= {"expectation", "cross_val_predict", "functional_call"}
OBJECTS = {"module", "model", "body", "predict", "getattr"}  # that are called, or whose result is
OURS = {  # what goes past `data/foreign.py`, and why it reaches no foreign code, or only on copies
    "bench/": "measures speed and certifies nothing",
    "paper/baselines.py: self.model": "the library's own modules, which nothing certifies",
    "cli/predict.py: opened.predict": "what a folder of ours holds, which gives copies",
    "models/asking.py: model.predict": "of a CertifiedClassifier, which gives copies",
    "models/candidates.py: self.predict_proba": "of a mean or vote, whose members get copies",
    "models/classifier.py: self.predict_proba": "of a CertifiedClassifier",
    "data/preprocessing.py: self.one_hot_": "scikit-learn's encoder, of a table made for it",
    "folders/fitting.py: classifier": "a CertifiedClassifier",
    "data/opening.py: fit": "a variable",
    "folders/folder.py: predict": "of a run of ours, whose networks give copies",
    "folders/prediction.py: predict": "of a run of ours, whose networks give copies",
    "export/comparison.py: predict": "of a run of ours, whose networks give copies",
    "export/graphs.py: torch.export.load": "called by `ask` in export/files.py",
    "export/predictors.py": "runs inside an exported graph",
    "networks/bodies.py: functional_call": "a partial, which `ask` calls",
    "sklearn/classifier.py: self.predict": "of a PACBayesClassifier, which gives copies",
    "verify/risks.py: body": "the body of a run of ours, which gives copies",
    "verify/redraw.py: body": "for `verify`, which gives it blocks of a file",
}


def past_the_door(path):
    """Yield mentions of foreign methods, and calls of foreign objects, outside `ask` and `give`."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    asked = [node for node in nodes if isinstance(node, ast.Call) and name(node) in ("ask", "give")]
    through = {id(inner) for call in asked for given in call.args for inner in ast.walk(given)}
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        strange = isinstance(node, ast.Attribute) and node.attr in METHODS
        strange |= isinstance(node, ast.Name) and node.id in METHODS - {"predict", "expectation"}
        strange |= called is not None and name(called) in OBJECTS - {"getattr"}
        strange |= isinstance(called, ast.Call) and name(called) in OBJECTS
        if strange and id(node) not in through:
            yield f"{path.relative_to(SOURCE)}: {ast.unparse(called or node)}"


def name(node):
    """Return the last name of what is called or mentioned."""
    node = node.func if isinstance(node, ast.Call) else node
    return getattr(node, "attr", getattr(node, "id", None))


def test_foreign_code_is_called_through_one_door():
    found = {one for path in SOURCE.rglob("*.py") for one in past_the_door(path)}
    assert not {one for one in found if not one.startswith(tuple(OURS))}
    assert not {ours for ours in OURS if not any(one.startswith(ours) for one in found)}, "idle"


@pytest.mark.parametrize(
    "line",
    [
        "model.fit(X, y)",
        "labels = asked(model.predict)",
        "getattr(model, 'predict')(X)",
        "self.module(x)",
        "functional_call(module, weights, (x,))",
        "cross_val_predict(model, X, y)",
    ],
)
def test_a_call_that_goes_round_the_door_is_found(line, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "room.py").write_text(line)
    assert len(list(past_the_door(tmp_path / "room.py"))) >= 1
    (tmp_path / "room.py").write_text("p = ask(model.predict, X)\nask(module, x)\ngive(m.fit, X)")
    assert not list(past_the_door(tmp_path / "room.py"))
