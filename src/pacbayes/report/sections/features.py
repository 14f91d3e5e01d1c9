"""The section on features: what became of the columns of a table, and which rows decided it."""

from __future__ import annotations

from collections.abc import Callable

from pacbayes.data.encoding import BooleanCode, CategoryCode, Encoding, NumberCode
from pacbayes.report.contents import RunContents
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card

__all__ = ["features_section"]

_SHOWN = 12  # categories of a column
Row = list[str]


def features_section(contents: RunContents) -> Section | None:
    """Return the section, or None if the data are not a table."""
    if contents.encoding is None:
        return None
    fitted = not contents.encoding.plain
    origin = (
        "The constants were fitted to the prior's part alone and are stored in features.json; "
        "verify fits them again."
        if fitted
        else "The columns are the features; nothing was fitted."
    )
    body = card(join(element("p", origin, class_="note"), _table(contents.encoding)))
    return Section("features", "Columns and features", body)


def _table(encoding: Encoding) -> Html:
    rows = [_ROWS[type(code)](code) for code in encoding.columns]
    caption = f"{len(rows)} columns, {len(encoding.names)} features"
    return table(caption, ["column", "kind", "features", "missing values"], rows, class_="plain")


def _number(code: NumberCode) -> Row:
    same = (code.mean, code.scale) == (0, 1)
    done = "as it is" if same else f"(x − {code.mean:.6g})/{code.scale:.6g}"
    return [code.name, "number", done, _missing(f"{code.fill:.6g}", code.missing)]


def _boolean(code: BooleanCode) -> Row:
    fill = "true" if code.fill else "false"
    return [code.name, "boolean", "1 if true, 0 if false", _missing(fill, code.missing)]


def _category(code: CategoryCode) -> Row:
    done = f"one for each of {_listed(code.categories)}" if code.categories else ""
    rare = f"one for the rare {_listed(code.rare)}" if code.rare else ""
    absent = "a feature says so" if code.missing else "zeros, as for unknown categories"
    return [code.name, "category", "; ".join(filter(None, (done, rare))), absent]


def _missing(fill: str, marked: bool) -> str:
    return f"{fill}, and a feature says so" if marked else f"none seen; {fill} if one occurs"


def _listed(words: tuple[str, ...]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


_ROWS: dict[type, Callable[..., Row]] = {
    NumberCode: _number,
    BooleanCode: _boolean,
    CategoryCode: _category,
}
