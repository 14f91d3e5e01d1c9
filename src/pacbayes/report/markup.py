"""HTML and SVG from functions, and the frame and the blocks of every page.

Every tag is closed, and plain text is always escaped.
"""

from __future__ import annotations

import base64
import html
import shlex
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

import pacbayes

__all__ = [
    "Html",
    "Section",
    "card",
    "command_block",
    "details",
    "document",
    "element",
    "figure",
    "join",
    "legend",
    "png",
    "scrolling_table",
    "swatch",
    "table",
]

_VOID = ("img", "link", "meta")
# The page loads nothing and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_COLUMNS = 84  # longest line of a command


class Html(str):
    """Markup. A plain `str` is escaped before it becomes part of any markup."""


def element(name: str, /, *children: str, **attributes: str | float | None) -> Html:
    """Return one element; `aria_label` becomes aria-label, and None omits an attribute."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str) -> Html:
    """Concatenate children, escaping those that are plain text."""
    return Html("".join(c if isinstance(c, Html) else html.escape(c) for c in children))


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    class_: str | None = None,
    hidden_caption: bool = False,
) -> Html:
    """Return a table whose first column contains row headings."""
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", c) for c in row[1:]))
        for row in rows
    ]
    return scrolling_table(caption, header, body, class_=class_, hidden_caption=hidden_caption)


def scrolling_table(
    caption: str,
    header: Sequence[str],
    body: Sequence[Html],
    *,
    class_: str | None = None,
    hidden_caption: bool = False,
) -> Html:
    """Return a table in a container that scrolls.

    The visible caption is above the container, where it does not scroll. The caption of the table
    itself is for screen readers.
    """
    whole = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", *(element("th", cell, scope="col") for cell in header))),
        element("tbody", *body),
        class_=class_,
    )
    container = element(
        "div", whole, class_="scroll", role="region", tabindex="0", aria_label=caption
    )
    if hidden_caption:
        return container
    return join(element("p", caption, class_="caption", aria_hidden="true"), container)


def png(pixels: NDArray[np.uint8]) -> str:
    """Encode a picture as a data URI: grey, (rows, columns), or red, green and blue, (…, 3)."""
    height, width = pixels.shape[:2]
    colours = 2 if pixels.ndim == 3 else 0  # PNG's types of pictures
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


@dataclass(frozen=True)
class Section:
    """A section with a heading; links to it end in #key."""

    key: str
    title: str
    body: Html


def document(
    title: str, eyebrow: str, lead: str, sections: Sequence[Section], class_: str | None = None
) -> str:
    """Return the whole page."""
    style = files("pacbayes.report").joinpath("style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"pacbayes {pacbayes.__version__}"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{title} · {eyebrow}"),
        element("style", Html(style)),
    )
    links = [element("li", element("a", s.title, href=f"#{s.key}")) for s in sections]
    header = element(
        "header",
        element("p", eyebrow, class_="eyebrow"),
        element("h1", title),
        element("p", lead, class_="lead"),
        element("nav", element("ul", *links), aria_label="Sections of this page"),
    )
    footer = f"Made by pacbayes {pacbayes.__version__}. This page loads nothing from the network."
    body = element(
        "body",
        element("a", "Skip to the content", class_="skip", href="#content"),
        header,
        element("main", *(_section(s) for s in sections), id="content"),
        element("footer", footer),
        class_=class_,
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _section(s: Section) -> Html:
    heading = element("h2", s.title, id=f"{s.key}-heading")
    return element("section", heading, s.body, id=s.key, aria_labelledby=f"{s.key}-heading")


def card(*children: str) -> Html:
    """Return a box with a border."""
    return element("div", *children, class_="card")


def figure(caption: str, chart: Html) -> Html:
    """Return a chart with a caption above it."""
    return element("figure", element("figcaption", caption), chart)


def command_block(command: str) -> Html:
    """Return a command to copy; a long one is broken before options, never within a word."""
    shown = Html(" \\\n".join(map(_unbroken, _lines(command))))
    return element("pre", shown, tabindex="0")


def _unbroken(words: list[str]) -> Html:
    """Return words that a browser does not break."""
    return Html(" ".join(element("span", word) for word in words))


def _lines(command: str) -> list[list[str]]:
    """Return the words of every line of a command."""
    first, *options = _options(command)
    lines = [first]
    for words in options:
        if len(" ".join(lines[-1] + words)) > _COLUMNS:
            lines.append([" "])  # indented by it and the space after it
        lines[-1] += words
    return lines


def _options(command: str) -> list[list[str]]:
    """Return the words of a command, those of each option together."""
    found: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("--"):
            found.append([])
        found[-1].append(shlex.quote(word))
    return found


def details(
    summary: str, header: Sequence[str], rows: Sequence[Sequence[str]], class_: str | None = None
) -> Html:
    """Return a table, folded away below a summary."""
    inner = table(summary, header, rows, class_=class_, hidden_caption=True)
    return element("details", element("summary", summary), inner)


def legend(*entries: tuple[str, str]) -> Html:
    """Return the names of what a chart shows, each with its colour."""
    return join(
        *(element("span", swatch(c), element("strong", t), class_="entry") for c, t in entries)
    )


def swatch(class_: str, shade: float = 1.0) -> Html:
    """Return a small square in the colour of a class."""
    style = None if shade == 1.0 else f"opacity:{shade:.2f}"
    return element("i", class_=f"swatch {class_}", style=style, aria_hidden="true")
