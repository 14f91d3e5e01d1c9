"""What a cell says: a number, a truth value, a date, or nothing."""

from __future__ import annotations

import re
from datetime import date, time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MISSING",
    "TRUTH",
    "as_numbers",
    "days_of",
    "is_date",
    "is_missing",
    "is_number",
    "is_odd_number",
    "is_temporal",
    "truth_words",
]

MISSING = ("", "?", "na", "n/a", "nan", "null")  # in any case
TRUTH = {"true": True, "false": False, "yes": True, "no": False}  # in any case
_PAIRS = ({"true", "false"}, {"yes", "no"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.I)
_DAY = r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](\d{4}|\d\d)"
_TIME = r"\d\d?:\d\d(:\d\d([.,]\d+)?)?"
_DATE = re.compile(rf"({_DAY})([ T]{_TIME} ?(Z|[+-]\d\d:?\d\d)?)?|{_TIME}", re.ASCII)
_PARTS = re.compile(
    r"((?P<year>\d{4})[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?))?[ T]?"
    r"((?P<hour>\d\d?):(?P<minute>\d\d)(:(?P<second>\d\d)([.,](?P<part>\d+))?)?)? ?"
    r"(Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))?",
    re.ASCII,
)
_EPOCH = date(1970, 1, 1).toordinal()
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of Arrow's units, in a second
_IN_NUMBERS = ("year", "month", "day", "hour", "minute", "second", "hours", "minutes")


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


def days_of(text: str) -> float | None:
    """Return a date as days since 1970-01-01 (UTC where no zone is given), with its time.

    A time alone is a fraction of a day. None stands for anything else, also for a date that does
    not begin with its year: 1/2/2020 is in January or in February.
    """
    found = _PARTS.fullmatch(text) if is_date(text) else None
    if found is None:
        return None
    parts = (int(found[name] or 0) for name in _IN_NUMBERS)
    year, month, day, hour, minute, second, hours, minutes = parts
    try:
        days = date(year, month, day).toordinal() - _EPOCH if found["year"] else 0
        at = time(hour, minute, second)
    except ValueError:  # there is no such day or time
        return None
    zone = (3600 * hours + 60 * minutes) * (-1 if found["sign"] == "-" else 1)
    seconds = 86_400 * days + 3600 * at.hour + 60 * at.minute + at.second - zone
    nanoseconds = int(((found["part"] or "") + 9 * "0")[:9])
    whole, rest = divmod(seconds * _TICKS["ns"] + nanoseconds, 86_400 * _TICKS["ns"])
    return whole + rest / (86_400 * _TICKS["ns"])


def truth_words(words: list[str]) -> bool:
    """Tell whether words are all among true and false, or all among yes and no."""
    lower = {word.lower() for word in words}
    return bool(lower) and any(lower <= pair for pair in _PAIRS)


def as_numbers(cells: pa.Array) -> NDArray[Any] | None:
    """Return cells in float64, NaN where one is missing; None if a cell is not a number.

    Numbers are rounded correctly, as by Python's `float`. Dates of Arrow are in days.
    """
    import pyarrow as pa

    if pa.types.is_boolean(cells.type):
        return None
    if pa.types.is_dictionary(cells.type):
        return _looked_up(cells)
    if pa.types.is_temporal(cells.type):
        return _days(cells)
    for look in (_as_it_is, _tidied):
        try:
            numbers = look(cells).cast(pa.float64(), safe=False)
        except pa.ArrowInvalid:
            continue
        values: NDArray[Any] = numbers.to_numpy(zero_copy_only=False)
        return values if values.dtype == np.float64 else values.astype(np.float64)
    return None


def is_temporal(kind: pa.DataType) -> bool:
    """Tell whether cells of a type are dates, times or durations."""
    from pyarrow import types

    return bool(types.is_temporal(kind.value_type if types.is_dictionary(kind) else kind))


def _days(cells: pa.Array) -> NDArray[Any]:
    """Return dates, times and durations in days; dates count from 1970-01-01."""
    import pyarrow as pa

    kind = cells.type
    day = 1 if kind == pa.date32() else 86_400 * _TICKS[getattr(kind, "unit", "ms")]
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    whole, rest = np.divmod(cells.cast(width).fill_null(0).to_numpy(zero_copy_only=False), day)
    return np.where(cells.is_valid().to_numpy(zero_copy_only=False), whole + rest / day, np.nan)


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
