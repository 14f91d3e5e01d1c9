"""For `verify`: the features of a table, fitted and computed again.

Nothing is shared with `fitting` and `encoding` but the typed columns: a mistake there shows here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.frame import Column, Frame, Kind

__all__ = ["features", "plain", "refit"]

Array = NDArray[Any]
Code = dict[str, Any]  # of a column, as features.json has it
_TRUE, _FALSE = ("true", "yes"), ("false", "no")
_ENOUGH, _MOST = 5, 50  # rows of a category that is not rare, and number of such categories


def plain(frame: Frame) -> list[Code]:
    """Return the codes that change nothing, which no row can have influenced."""
    nothing: dict[Kind, Code] = {
        Kind.NUMBER: {"fill": 0.0, "mean": 0.0, "scale": 1.0, "missing": False},
        Kind.DATE: {"fill": 0.0, "mean": 0.0, "scale": 1.0, "missing": False},
        Kind.BOOLEAN: {"fill": False, "missing": False},
        Kind.CATEGORY: {"categories": [], "rare": [], "missing": False},
    }
    return [{"kind": c.kind.value, "name": c.name, **nothing[c.kind]} for c in frame.columns]


def refit(frame: Frame, rows: Sequence[int] | Array) -> list[Code]:
    """Return the codes that the given rows, those of the prior, determine."""
    return [_code(column, np.asarray(rows)) for column in frame.columns]


def _code(column: Column, rows: Array) -> Code:
    cells = column.values[rows].tolist()
    if column.kind in (Kind.NUMBER, Kind.DATE):
        return {"kind": column.kind.value, "name": column.name, **_number(cells)}
    return _texts(column.name, [None if c < 0 else column.categories[c] for c in cells])


def _number(cells: list[float]) -> Code:
    given = sorted(cell for cell in cells if cell == cell)
    middle = given[(len(given) - 1) // 2 : len(given) // 2 + 1]  # one or two
    fill = sum(middle) / len(middle) if middle else 0.0
    filled = [cell if cell == cell else fill for cell in cells]
    n = len(filled)
    mean = fsum(filled) / n
    spread = sqrt(fsum((cell - mean) * (cell - mean) for cell in filled) / n)
    scale = spread if max(filled) > min(filled) else 1.0
    return {"fill": fill, "mean": mean, "scale": scale, "missing": len(given) < n}


def _texts(name: str, words: list[str | None]) -> Code:
    given = [word for word in words if word is not None]
    missing = len(given) < len(words)
    lower = [word.lower() for word in given]
    if set(lower) <= {_TRUE[0], _FALSE[0]} or set(lower) <= {_TRUE[1], _FALSE[1]}:
        true = sum(word in _TRUE for word in lower)
        fill = true > len(lower) - true
        return {"kind": "boolean", "name": name, "fill": fill, "missing": missing}
    different, counts = np.unique(np.array(given, dtype=object), return_counts=True)
    order = sorted(zip((-counts).tolist(), different.tolist(), strict=True))
    kept = sorted(word for count, word in order[:_MOST] if -count >= _ENOUGH)
    rare = sorted(set(different.tolist()) - set(kept))
    words_of = {"categories": kept, "rare": rare, "missing": missing}
    return {"kind": "category", "name": name, **words_of}


def features(frame: Frame, codes: Sequence[Mapping[str, Any]]) -> Array:
    """Return the features in float32, (n, d)."""
    columns = zip(frame.columns, codes, strict=True)
    return np.column_stack([part for column, code in columns for part in _parts(column, code)])


def _parts(column: Column, code: Mapping[str, Any]) -> list[Array]:
    """Return the features of one column, each (n,)."""
    if code["kind"] in ("number", "date"):
        values = column.values.astype(np.float64)
        absent = np.isnan(values)
        values[absent] = code["fill"]
        parts = [((values - code["mean"]) / code["scale"]).astype(np.float32)]
    else:
        absent = column.values < 0
        parts = _of_words(column, code)
    return parts + [absent.astype(np.float32)] * code["missing"]


def _of_words(column: Column, code: Mapping[str, Any]) -> list[Array]:
    if code["kind"] == "boolean":
        known = dict.fromkeys(_TRUE, 1.0) | dict.fromkeys(_FALSE, 0.0)
        values = [known.get(word.lower(), float(code["fill"])) for word in column.categories]
        return [np.array([*values, float(code["fill"])], np.float32)[column.values]]
    sets = [{word} for word in code["categories"]] + [set(code["rare"])] * bool(code["rare"])
    return [
        np.array([*(word in own for word in column.categories), False], np.float32)[column.values]
        for own in sets
    ]
