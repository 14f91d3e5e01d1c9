"""Errors as one line: what is wrong, with the value, and the likely fix."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import Any

import typer

from pacbayes.cli.predict import printable
from pacbayes.spelling import did_you_mean

__all__ = ["one_line"]

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_OPTIONS = {"lam": "lambda"}  # settings whose option is spelled differently


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
    where = ".".join(map(str, detail["loc"])).replace("_", "-")
    if not where:
        return str(what)
    return f"--{_OPTIONS.get(where, where)}: {what}, got {detail['input']!r}"
