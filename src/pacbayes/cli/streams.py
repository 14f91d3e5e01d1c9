"""Standard output and standard error: they take every text, and texts are harmless to them."""

from __future__ import annotations

import codecs
import errno
import io
import os
import shlex
import sys
import time
from contextlib import suppress

__all__ = [
    "command",
    "discard_output",
    "duration",
    "failing_output",
    "harmless",
    "prepare_streams",
    "printable",
    "remark",
    "say",
    "shout",
    "took",
]

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


def shout(message: str) -> None:
    """Print a warning that nobody can miss on standard error."""
    bar = "!" * 78
    say(f"{bar}\n{message}\n{bar}")


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(0.314), duration(12.3), duration(185), duration(7800)
    ('0.3 s', '12 s', '3 min 5 s', '2 h 10 min')
    """
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def took(started: float) -> str:
    """Return the time since `started`, a time of `time.monotonic`."""
    return duration(time.monotonic() - started)


def remark(text: str, *, quiet: bool = False) -> None:
    """Print a remark (how long it took, what to do next) on standard error, unless `quiet`."""
    if not quiet:
        say(text)


def command(*words: object) -> str:
    """Return a command to copy into a shell."""
    return shlex.join(["pacbayes", *map(str, words)])


def printable(text: str) -> str:
    r"""Return a text in which nothing moves a terminal's cursor: files name classes as they like.

    >>> printable("class a\nVerified")
    'class a\\nVerified'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def harmless(label: str) -> str:
    """Return a label that neither a terminal nor a spreadsheet takes for a command.

    >>> harmless("=HYPERLINK(0)"), harmless("-1.5"), harmless("red\\x1b[2J")
    ("'=HYPERLINK(0)", '-1.5', 'red\\\\x1b[2J')
    """
    text = printable(label)
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return text
