"""Build HTML and SVG from functions: every tag is closed, and plain text is always escaped."""

from __future__ import annotations

import base64
import html
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["Html", "element", "join", "png", "scrolling_table", "table"]

_VOID = ("img", "link", "meta")


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
    header: list[str],
    rows: list[list[str]],
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
    header: list[str],
    body: list[Html],
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
