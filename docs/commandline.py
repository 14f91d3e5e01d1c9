"""The page of commands, which is what `--help` prints."""

from collections.abc import Iterator

import typer
from sphinx.application import Sphinx
from typer.testing import CliRunner

from pacbayes.cli import app as commands

_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "88", "TERMINAL_WIDTH": "88"}


def _page() -> Iterator[str]:
    yield "# Commands\n"
    yield "What `--help` says of every command. Bad input ends with one line and exit code 2.\n"
    for name in sorted(typer.main.get_command(commands).commands):
        said = CliRunner(env=_PLAIN).invoke(commands, [name, "--help"], prog_name="pacbayes").output
        yield f"## `pacbayes {name}`\n\n```text\n{said.strip()}\n```\n"


def _write(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "commands":
        source[0] = "\n".join(_page())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
