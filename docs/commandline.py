"""Write the page of commands from the output of `--help`."""

from collections.abc import Iterator

import typer
from sphinx.application import Sphinx
from typer.testing import CliRunner

from pacbayes.cli import app as commands

_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "88", "TERMINAL_WIDTH": "88"}


def _page() -> Iterator[str]:
    yield "# Commands\n"
    yield "This page shows the `--help` of every command.\n"
    yield "Exit codes: 0 for success, 1 if a check failed, 2 for bad input, 130 after Ctrl-C.\n"
    for name in sorted(typer.main.get_command(commands).commands):
        result = CliRunner(env=_PLAIN).invoke(commands, [name, "--help"], prog_name="pacbayes")
        yield f"## `pacbayes {name}`\n\n```text\n{result.output.strip()}\n```\n"


def _write(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "commands":
        source[0] = "\n".join(_page())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
