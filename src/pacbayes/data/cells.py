"""What a cell says: a number, a truth value, a date, or nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MISSING",
    "TRUTH",
    "as_numbers",
    "is_date",
    "is_missing",
    "is_number",
    "is_odd_number",
    "truth_words",
]

MISSING = ("", "?", "na", "n/a", "nan", "null")  # in any case
TRUTH = {"true": True, "false": False, "yes": True, "no": False}  # in any case
_PAIRS = ({"true", "false"}, {"yes", "no"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.I)
_DAY = r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](\d{4}|\d\d)"
_TIME = r"\d\d?:\d\d(:\d\d([.,]\d+)?)?"
_DATE = re.compile(rf"({_DAY})([ T]{_TIME} ?(Z|[+-]\d\d:?\d\d)?)?|{_TIME}", re.ASCII)


def is_missing(text: str) -> bool:
    """Tell whether a cell says that its value is missing."""
    return text.lower() in MISSING


def is_number(text: str) -> bool:
    """Tell whether a cell is written as a number, in ASCII and without underscores."""
    return _NUMBER.fullmatch(text) is not None


def is_odd_number(text: str) -> bool:
    """Tell whether Python takes a text for a number that is not written as one, as 1_0 or -nan."""
    try:
        float(text)
    except ValueError:
        return False
    return not is_number(text) and not is_missing(text)


def is_date(text: str) -> bool:
    """Tell whether a cell looks like a date, a time or both."""
    return _DATE.fullmatch(text) is not None


def truth_words(words: list[str]) -> bool:
    """Tell whether words are all among true and false, or all among yes and no."""
    lower = {word.lower() for word in words}
    return bool(lower) and any(lower <= pair for pair in _PAIRS)


def as_numbers(cells: pa.Array) -> NDArray[Any] | None:
    """Return cells in float64, NaN where one is missing; None if a cell is not a number.

    Numbers are rounded correctly, as by Python's `float`.
    """
    import pyarrow as pa

    if pa.types.is_boolean(cells.type):
        return None
    if pa.types.is_dictionary(cells.type):
        return _looked_up(cells)
    for look in (_as_it_is, _tidied):
        try:
            numbers = look(cells).cast(pa.float64(), safe=False)
        except pa.ArrowInvalid:
            continue
        values: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
        return values if values.dtype == np.float64 else values.astype(np.float64)
    return None


def _looked_up(cells: pa.DictionaryArray) -> NDArray[Any] | None:
    """Convert each different text once, however often it occurs."""
    numbers = as_numbers(cells.dictionary)
    if numbers is None:
        return None
    places = cells.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    found: NDArray[Any] = np.append(numbers, np.nan)[places]
    return found


def _as_it_is(cells: pa.Array) -> pa.Array:
    return cells


def _tidied(cells: pa.Array) -> pa.Array:
    """Remove spaces around texts, and texts that mean a missing value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(cells)
    empty = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(MISSING, trimmed.type))
    return pc.if_else(empty, pa.scalar(None, trimmed.type), trimmed)
