"""The documentation's code and commands work, and its output is right."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

import pacbayes
from pacbayes.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
ELSEWHERE = ["export.md"]  # needs trained runs; the tests in tests/export run it
PYTHON = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\S+/)?pacbayes +([^#\n]*)", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if "```python" in p.read_text() and p.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_every_snippet_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    """Run a page from top to bottom; a text block after a snippet must equal its output."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, shown in PYTHON.findall(page.read_text()):
        exec(compile(code, str(page), "exec"), names)
        assert capsys.readouterr().out == shown


def test_the_page_on_plans_shows_what_the_command_prints(run_cli):
    page = (DOCS / "plan.md").read_text()
    shown = re.findall(
        r"^```\npacbayes ([^\n]*)\n```\n\n```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE
    )
    assert len(shown) == 2
    for line, table in shown:
        printed = run_cli(*line.split())[1].partition("Assumed")[0]
        assert [row.rstrip() for row in printed.splitlines()] == table.splitlines()


def commands():
    for page in [ROOT / "README.md", *PAGES]:
        text = page.read_text().replace("\\\n", " ")  # continued lines
        for block in re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            yield from ((page.name, line.strip()) for line in COMMAND.findall(block))


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_every_command_shown_takes_the_options_shown(page, line):
    group = typer.main.get_command(app)
    name, *arguments = shlex.split(line.split(">")[0].split("&&")[0])
    context = group.make_context("pacbayes", [name, *arguments])
    group.commands[name].make_context(name, arguments, parent=context)


def test_every_public_name_is_in_the_reference():
    index = (DOCS / "api" / "index.md").read_text()
    assert {n for n in pacbayes.__all__ if f".{n}`" not in index} == set()


def test_every_module_is_in_the_reference():
    source = Path(pacbayes.__file__).parent
    modules = {
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in source.rglob("*.py")
        if path.stem not in ("__init__", "__main__") and path.parent.name != "cli"
    }
    shown = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    assert modules == set(re.findall(r"automodule:: pacbayes\.(\S+)", shown)) - {"data", "verify"}


def test_notebooks_hold_no_outputs():
    """Notebooks are executed when the documentation is built; stored outputs could be stale."""
    for path in (DOCS / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert not any(c.get("outputs") or c.get("execution_count") for c in cells), path
