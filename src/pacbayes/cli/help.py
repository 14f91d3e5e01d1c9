"""Help pages with sections and examples that are never wrapped, and errors as one line."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pacbayes.cli.options import flag_of
from pacbayes.cli.streams import printable
from pacbayes.spelling import did_you_mean

if TYPE_CHECKING:
    from typer._click import Command as AnyCommand
    from typer._click import Context, HelpFormatter

__all__ = ["Command", "Group", "one_line"]

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_EXAMPLE = "pacbayes "  # the start of an example in a docstring
_Sections = dict[str, list[tuple[str, str]]]  # names and their help, by heading


class Command(TyperCommand):
    """A command that lists its options under their `rich_help_panel`, without rich."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Return the pieces of the usage line, without braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the description and the examples."""
        _write_help(self, formatter, "Examples")

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write arguments and options, each under its heading."""
        sections: _Sections = {"Arguments": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if parameter.param_type_name == "argument":  # without its choices, which may be long
                sections["Arguments"].append((record[0].partition(" ")[0], record[1]))
            else:
                sections.setdefault(_panel(parameter, "Options"), []).append(record)
        _write_sections(sections, formatter)


class Group(TyperGroup):
    """The list of commands under their `rich_help_panel`, in the order of use."""

    def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the description and the examples."""
        _write_help(self, formatter, "Start")

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write arguments and options, each under its heading."""
        self.format_commands(ctx, formatter)
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        _write_sections({"Options": [r for r in records if r is not None]}, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands, each under its heading."""
        width = max(map(len, self.commands))
        sections: _Sections = {}
        for name, command in self.commands.items():
            purpose = (command.help or "").partition("\n")[0]
            panel = _panel(command, "Commands")
            sections.setdefault(panel, []).append((name.ljust(width), purpose))
        _write_sections(sections, formatter)

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, AnyCommand | None, list[str]]:
        """Return the command that was asked for; suggest one if it is unknown."""
        self._check_command(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _check_command(self, ctx: Context, name: str) -> None:
        if name not in self.commands and not name.startswith("-"):
            hint = did_you_mean(name, self.commands) or "; see pacbayes --help"
            ctx.fail(f"unknown command {name!r}{hint}")


def _panel(item: object, default: str) -> str:
    """Return the heading under which a command or an option is listed."""
    return getattr(item, "rich_help_panel", None) or default


def _write_help(command: TyperCommand | TyperGroup, formatter: HelpFormatter, title: str) -> None:
    """Write a docstring: paragraphs are wrapped, examples stay as they are."""
    paragraphs = (command.help or "").strip().split("\n\n")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text("\n\n".join(filterfalse(_is_example, paragraphs)))
    with formatter.section(title):
        for line in "\n".join(filter(_is_example, paragraphs)).splitlines():
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _is_example(paragraph: str) -> bool:
    return paragraph.startswith(_EXAMPLE)


def _write_sections(sections: _Sections, formatter: HelpFormatter) -> None:
    for name, records in sections.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)


def one_line(error: Exception) -> str:
    """Return the message of any error that bad input can raise, as one line of printable text."""
    return printable(" ".join(_message(error).split())) or type(error).__name__


def _message(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        return _of_parsing(error)
    if isinstance(error, OSError) and error.strerror:
        return _of_system(error, error.strerror.lower())
    detail = _first_detail(error)
    return str(error) if detail is None else _of_setting(detail)


def _of_parsing(error: typer.TyperException) -> str:
    if hasattr(error, "possibilities"):
        return _unknown_option(str(getattr(error, "option_name", "")), error.possibilities or [])
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    if " is not one of " in message:
        wrong, *choices = re.findall(r"'([^']*)'", message.partition(": ")[2])
        return message.rstrip(".") + did_you_mean(wrong, choices)
    detail = _first_detail(error.__cause__)
    return message if detail is None else f"{message}, got {detail['input']!r}"


def _unknown_option(name: str, near: Sequence[str]) -> str:
    """Suggest the option that the name abbreviates, or else the nearest."""
    ordered = sorted(near, key=lambda option: not option.startswith(name))
    hint = f"; did you mean {ordered[0]}?" if ordered else ""
    return f"unknown option {name}{hint}"


def _of_system(error: OSError, what: str) -> str:
    """Name the file; what has none and cannot be written is standard output."""
    place = error.filename2 or error.filename
    place = place or ("standard output" if error.errno in _OF_WRITING else None)
    return f"{place}: {what}" if place else what


def _first_detail(error: BaseException | None) -> dict[str, Any] | None:
    """Return the first of the errors that pydantic lists, which is enough."""
    details = getattr(error, "errors", None)
    return details()[0] if callable(details) else None


def _of_setting(detail: dict[str, Any]) -> str:
    what = detail["msg"].removeprefix("Value error, ")
    where = ".".join(map(str, detail["loc"]))
    if not where:
        return str(what)
    from pacbayes.settings import OPTIONS

    option = flag_of(where, OPTIONS.get(where))
    return f"{option}: {what}, got {detail['input']!r}"
