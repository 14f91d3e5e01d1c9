"""Errors as one line: what is wrong, with the value, and the likely fix."""

from __future__ import annotations

import re

import typer

from pacbayes.spelling import did_you_mean

__all__ = ["one_line"]


def one_line(error: Exception) -> str:
    """Return the message of any error that bad input can raise."""
    if isinstance(error, typer.TyperException):
        return _of_parsing(error)
    if isinstance(error, OSError) and error.strerror:
        place = error.filename2 or error.filename
        return f"{place}: {error.strerror.lower()}" if place else error.strerror.lower()
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first = details()[0]  # the first is enough; pydantic lists all of them
    where = ".".join(map(str, first["loc"])).replace("_", "-")
    where = "lambda" if where == "lam" else where
    what = first["msg"].removeprefix("Value error, ")
    return f"--{where}: {what}, got {first['input']!r}" if where else what


def _of_parsing(error: typer.TyperException) -> str:
    message = " ".join(error.format_message().replace("Value error, ", "").split())
    if (name := getattr(error, "option_name", None)) and hasattr(error, "possibilities"):
        near = sorted(error.possibilities or [], key=lambda option: not option.startswith(name))
        return f"unknown option {name}" + (f"; did you mean {near[0]}?" if near else "")
    if " is not one of " in message:
        wrong, *choices = re.findall(r"'([^']*)'", message.partition(": ")[2])
        return message.rstrip(".") + did_you_mean(wrong, choices)
    given = getattr(error.__cause__, "errors", None)
    return f"{message}, got {given()[0]['input']!r}" if callable(given) else message
