"""Markup is closed and escaped whatever goes into it."""

import base64
import io
import shlex

import numpy as np
from matplotlib.image import imread

from pacbayes.report.markup import Html, command_block, element, join, png, table


def test_text_is_escaped_and_markup_is_not():
    inner = element("b", "1 < 2 & 3")
    assert inner == "<b>1 &lt; 2 &amp; 3</b>"
    assert element("p", inner, "<i>") == "<p><b>1 &lt; 2 &amp; 3</b>&lt;i&gt;</p>"
    assert join("<", Html("<hr>")) == "&lt;<hr>"


def test_attributes_are_quoted_renamed_and_left_out():
    made = element("a", "x", class_="y", aria_label='"><script>', href=None, width=1 / 3)
    assert made == '<a class="y" aria-label="&quot;&gt;&lt;script&gt;" width="0.333333">x</a>'
    assert element("meta", name="a", http_equiv="b") == '<meta name="a" http-equiv="b">'


def test_a_table_has_caption_and_scopes(read):
    page = read(table("of <things>", ["name", "value"], [["<a>", "1"], ["b", "2"]]))
    assert page.all("caption")[0]["text"] == "of <things>"
    assert [e["scope"] for e in page.all("th")] == ["col", "col", "row", "row"]
    assert [e["text"] for e in page.all("td")] == ["1", "2"]
    shown, container = page.elements[:2]
    assert (shown["class"], shown["text"]) == ("caption", "of <things>")
    assert (container["class"], container["tabindex"]) == ("scroll", "0")


def test_a_long_command_is_broken_before_options_and_stays_the_same(read):
    command = shlex.join(["pacbayes", "train", "--out", "a --b c", *("--option", "value") * 12])
    text = read(command_block(command)).all("pre")[0]["text"]
    lines = text.split("\n")
    assert len(lines) > 1
    assert all(len(line) <= 86 for line in lines)
    assert all(line.startswith("  --") for line in lines[1:])
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(command)


def test_a_picture_is_encoded_without_loss():
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8)
    kind, _, content = png(grey).partition(",")
    assert kind == "data:image/png;base64"
    found = imread(io.BytesIO(base64.b64decode(content)), format="png")
    np.testing.assert_array_equal(np.round(255 * found), grey)


def test_a_picture_in_colours_is_encoded_without_loss():
    colours = np.arange(90, dtype=np.uint8).reshape(5, 6, 3)
    found = imread(io.BytesIO(base64.b64decode(png(colours).partition(",")[2])), format="png")
    np.testing.assert_array_equal(np.round(255 * found), colours)
