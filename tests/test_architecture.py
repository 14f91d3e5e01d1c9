"""Imports point one way, and the public API is what it says."""

import ast
import subprocess
import sys
from pathlib import Path

import pacbayes

SOURCE = Path(pacbayes.__file__).parent
ROOMS = [  # each may import from earlier lines only
    {"spelling", "choices", "defaults", "devices", "extras", "paper.printed", "randomness"},
    {"redraw", "enclosures", "files", "settings", "bounds", "data"},
    {"networks", "verify"},
    {"engine"},
    {"training"},
    {"certificates"},
    {"runs"},
    {"sklearn", "paper", "export"},
    {"certified", "bench"},
    {"report"},
    {"cli"},
]
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
            if other != own:
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
