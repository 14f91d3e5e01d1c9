"""The frame of every page (head, heading, links to the sections, style sheet) and its blocks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import pacbayes
from pacbayes.report.markup import Html, element, join, table

__all__ = ["Section", "card", "command_block", "details", "document", "figure", "legend", "swatch"]

# The page loads nothing and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_COLUMNS = 84  # longest line of a command


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
    summary: str, header: list[str], rows: list[list[str]], class_: str | None = None
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
