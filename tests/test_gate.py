"""The mutation gate: what is noticed is caught, what is not survives, and nothing is run twice."""

import sys

import pytest

import gate
from gate import NONE, Result
from mutants import MUTANTS

REAL = gate.ROOT
FATAL, HARMLESS = ("1 + 1", "1 + 2"), ("1 + 1", "1+1")
PASSES = "from pacbayes.a import two\n\ndef test_two():\n    assert two() == 2\n"
FAILS = "def test_it():\n    assert False\n"
ENDLESS = "def test_it():\n    while True:\n        pass\n"


@pytest.fixture(autouse=True)
def root(monkeypatch, tmp_path):
    """A small package with tests."""
    files = {
        "src/pacbayes/__init__.py": '__version__ = "1.2"\n',
        "src/pacbayes/a.py": "def two():\n    return 1 + 1\n",
        "tests/conftest.py": "",
        "tests/b/conftest.py": "",
        "tests/b/test_a.py": PASSES,
        "tests/b/test_broken.py": FAILS,
        "tests/b/test_endless.py": ENDLESS,
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "FORKED", [])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    gate._files_of.cache_clear()
    yield tmp_path
    gate._files_of.cache_clear()


def run(monkeypatch, root, *defects, tests="tests/b/test_a.py"):
    monkeypatch.setattr(gate, "MUTANTS", [("a.py", *defect, tests) for defect in defects])
    options = ("--jobs", "1", "--log", root / "log.jsonl", "--summary", root / "summary.md")
    monkeypatch.setattr(sys, "argv", ["gate", *map(str, options)])
    code = gate.main()
    return code, (root / "summary.md").read_text()


def test_defects_are_caught_or_survive_and_are_not_run_twice(monkeypatch, root, capsys):
    code, summary = run(monkeypatch, root, FATAL)
    assert (code, "pacbayes 1.2: 1 of 1 caught" in summary) == (0, True)
    code, summary = run(monkeypatch, root, FATAL, HARMLESS)
    assert (code, "1 of 2 caught" in summary, "| `a.py` | 2 | 1 |" in summary) == (1, True, True)
    assert summary.endswith("Not caught:\n\n- `a.py`: `1 + 1` → `1+1`\n")
    assert "2 defects, of which 1 were sown before" in capsys.readouterr().out
    assert run(monkeypatch, root, FATAL, HARMLESS)[0] == 1
    assert "2 defects, of which 2 were sown before" in capsys.readouterr().out
    assert len((root / "log.jsonl").read_text().splitlines()) == 2


def test_a_test_that_fails_without_a_defect_catches_nothing(monkeypatch, root):
    code, summary = run(monkeypatch, root, FATAL, tests="tests/b/test_broken.py")
    assert (code, "0 of 1 caught" in summary) == (1, True)
    assert "`a.py`: tests/b/test_broken.py::test_it fails without any defect" in summary


def test_the_test_that_failed_last_time_is_run_first_and_the_others_if_it_passes(root):
    broken = ("a.py", *FATAL, "tests/b/test_broken.py")
    assert gate.sow(broken, "tests/b/test_a.py::test_two").caught == "tests/b/test_a.py::test_two"
    for passes in ("tests/b/test_a.py::test_gone", None):
        assert gate.sow(broken, passes).caught == "tests/b/test_broken.py::test_it"
    survivor = ("a.py", *HARMLESS, "tests/b/test_a.py")
    assert gate.sow(survivor, "tests/b/test_a.py::test_two").caught is None


def test_a_defect_without_its_place_is_refused_before_any_is_sown(monkeypatch, root):
    with pytest.raises(SystemExit, match="bring tests"):
        run(monkeypatch, root, FATAL, ("three", "four"))
    assert not (root / "log.jsonl").exists()


def test_what_does_not_end_as_it_should_is_named(monkeypatch, root):
    with pytest.raises(SystemExit, match="no tests ran"):
        gate.sow(("a.py", *FATAL, "tests/b/test_a.py -k gone"), None)
    with pytest.raises(SystemExit, match="no tests ran"):
        gate.failing_without([Result("a.py", *FATAL, "key", "tests/gone.py", 1.0)])
    assert gate.failures(root / "src", ["tests/b/test_gone.py"]) == NONE
    monkeypatch.setattr(gate, "LIMIT", 10)
    assert gate.failures(root / "src", ["tests/b/test_endless.py"]) == ["no end within 10 seconds"]


def test_a_defect_is_sown_again_if_its_file_or_tests_change(root):
    mutant = ("a.py", *FATAL, "tests/b -k not(z)")
    keys = [gate.key_of(mutant), gate.key_of(("a.py", *HARMLESS, "tests/b -k not(z)"))]
    for path in (
        "src/pacbayes/a.py",
        "tests/conftest.py",
        "tests/b/conftest.py",
        "tests/b/test_a.py",
    ):
        (root / path).write_text("changed")
        keys.append(gate.key_of(mutant))
    assert len(set(keys)) == 6


def test_the_files_own_tests_come_first(root):
    (root / "tests" / "test_a.py").write_text("")
    assert gate._own_first("a.py", "tests -x") == ["tests/test_a.py", "tests", "-x"]
    assert gate._own_first("a.py", "tests/b") == ["tests/b"]
    assert gate._own_first("c.py", "tests") == ["tests"]


def test_every_defect_has_its_place_and_its_tests(monkeypatch):
    monkeypatch.setattr(gate, "ROOT", REAL)
    gate._refuse_stale(MUTANTS)
    named = {
        test.split("::")[0] for *_, tests in MUTANTS for test in tests.split(" -k ")[0].split()
    }
    assert sorted(path for path in named if not (REAL / path).exists()) == []
