"""Standard output and standard error that take every text, and say when they take nothing."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from contextlib import suppress

__all__ = ["discard_output", "failing_output", "prepare_streams", "say"]

_SPELLED = "pacbayes-spelled"
_WORDS = {
    **{"α": "alpha", "δ": "delta", "ε": "epsilon", "λ": "lambda", "μ": "mu", "σ": "sigma"},
    **{"–": "-", "—": "-", "−": "-", "…": "...", "≤": "<=", "≥": ">=", "≈": "~", "±": "+/-"},
    **{"·": "*", "×": "x", "√": "sqrt", "²": "^2", "‘": "'", "’": "'", "“": '"', "”": '"'},
    **{"→": "->", "✓": "ok", "ä": "ae", "ö": "oe", "ü": "ue"},
}


def prepare_streams() -> None:
    """Let every encoding take every text, and keep closed streams from being taken for files.

    Characters that an encoding lacks are spelled in ASCII. Writing to a closed standard output is
    an error, as to a full one; what goes to a closed standard error is lost.
    """
    for descriptor in range(3):  # else a file that is opened later would get its number
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)
    codecs.register_error(_SPELLED, _spelled)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_SPELLED)


class _Closed(io.StringIO):
    """A standard output that was closed by the caller."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_WORDS.get(c, c) for c in text).encode(
        "ascii", "backslashreplace"
    ).decode(), error.end


def say(text: str) -> None:
    """Print a line on standard error, if it takes one."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def failing_output() -> bool:
    """Return whether standard output does not take what was printed."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return isinstance(sys.stdout, _Closed)


def discard_output() -> None:
    """Send the rest to nowhere; else Python would complain that output cannot be written."""
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
