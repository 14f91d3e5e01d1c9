"""Columns built from chunks of cells: each is of one kind, and anything else is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.cells import (
    TRUTH,
    as_numbers,
    is_date,
    is_missing,
    is_number,
    is_odd_number,
    truth_words,
)
from pacbayes.data.dataset import DataError, Floats
from pacbayes.data.frame import MISSING_CODE, Column, Kind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Builder"]

_DECIMAL_COMMA = str.maketrans(",", ".")
_FEW = 20  # values of so short a column may all differ by chance


class Builder:
    """A column under construction.

    A column is of numbers if its first value is one, and of texts otherwise; nothing else than a
    single row decides, so the kind of a column reveals nothing about the other rows.

    Args:
        where: the file, for messages.
        first: number of the first row, for messages.
        room: where numbers are put, (n,).
        kind: kind of the column, if it is known beforehand.
    """

    def __init__(
        self, where: str, name: str, first: int, room: Floats, kind: Kind | None = None
    ) -> None:
        self.where, self.name, self.first = where, name, first
        self.room, self.kind = room, kind
        self.known = kind is not None
        self.codes: dict[str, int] = {}
        self.texts: list[NDArray[np.int32]] = []

    def add(self, cells: pa.Array, start: int) -> None:
        """Add a chunk whose first row is number `start`, counting from 0."""
        textual = self.kind is Kind.CATEGORY
        numbers = None if textual and self.known else as_numbers(cells)
        if numbers is None or textual:
            self._add_texts(cells, start)
        else:
            self._add_numbers(cells, numbers, start)

    def _add_numbers(self, cells: pa.Array, numbers: NDArray[Any], start: int) -> None:
        part = self.room[start : start + len(numbers)]
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
            part[:] = numbers
        finite = np.isfinite(part)
        if not finite.all() and (infinite := np.isinf(part)).any():
            self._refuse_infinite(cells, int(infinite.argmax()), start)
        if self.kind is None and finite.any():
            self.kind = Kind.NUMBER

    def _refuse_infinite(self, cells: pa.Array, row: int, start: int) -> None:
        raise DataError(
            f"{self._at(start + row)}: {str(cells[row].as_py()).strip()!r} is not a finite "
            f"{self.room.dtype} number; correct it, or leave it empty if it is missing"
        )

    def _add_texts(self, cells: pa.Array, start: int) -> None:
        words, places = _encoded(cells)
        given = np.array([not is_missing(word) for word in words])[places]
        if self.kind is None and given.any():
            self.kind = Kind.NUMBER if is_number(words[places[given.argmax()]]) else Kind.CATEGORY
            self.texts = [np.full(start, MISSING_CODE, np.int32)]
        if self.kind is None:
            self.room[start : start + len(places)] = np.nan
            return
        if self.kind is Kind.NUMBER or not self.known:
            self._check_kind(words, places, given, start)
        codes = np.array([self._code(word) for word in words], np.int32)
        self.texts.append(codes[places])

    def _code(self, word: str) -> int:
        return MISSING_CODE if is_missing(word) else self.codes.setdefault(word, len(self.codes))

    def _check_kind(
        self, words: list[str], places: NDArray[Any], given: NDArray[np.bool_], start: int
    ) -> None:
        """Raise DataError for the first value that is not of the column's kind."""
        odd = np.array([is_number(word) for word in words])[places]
        wrong = given & (~odd if self.kind is Kind.NUMBER else odd)
        if wrong.any():
            row = int(wrong.argmax())
            self._refuse_mixed(words[places[row]], start + row)

    def _refuse_mixed(self, word: str, row: int) -> None:
        if is_number(word):
            said = f"{word!r} is a number, but the column begins with other texts"
        elif is_number(word.translate(_DECIMAL_COMMA)):
            said = f"{word!r} has a decimal comma; write numbers with a point"
        else:
            said = f"{word!r} is not a number, but the column has numbers"
        known = "" if self.known else f", or make it categorical with --categorical {self.name}"
        raise DataError(f"{self._at(row)}: {said}; correct it, leave it empty{known}")

    def _at(self, row: int) -> str:
        return f"{self.where}, row {row + self.first}, column {self.name!r}"

    def required(self, n: int, role: str) -> Column:
        """Return a column of labels or groups, none of which may be missing."""
        values, words = self._categories(n)
        if (values == MISSING_CODE).any():
            row = int((values == MISSING_CODE).argmax())
            raise DataError(f"{self._at(row)}: the {role} is missing")
        self._check_odd(values, words)
        return Column(self.name, Kind.CATEGORY, values, words)

    def column(self, n: int) -> Column:
        """Return the column of n rows."""
        if self.kind is Kind.NUMBER:
            return Column(self.name, Kind.NUMBER, self.room[:n])
        if self.kind is None:
            raise DataError(
                f"{self.where}: column {self.name!r} has no value at all; "
                f"leave it out with --drop {self.name}"
            )
        values, words = self._categories(n)
        if not self.known:
            self._check_texts(values, words)
            if truth_words(list(words)):
                return self._boolean(values, words)
        return Column(self.name, Kind.CATEGORY, values, words)

    def _check_odd(self, values: NDArray[np.int32], words: tuple[str, ...]) -> None:
        """Raise DataError for a text that is a number in an unusual spelling."""
        odd = [i for i, word in enumerate(words) if is_odd_number(word)]
        if odd:
            row = int(np.isin(values, odd).argmax())
            raise DataError(
                f"{self._at(row)}: {words[values[row]]!r} is not a number, but looks like one; "
                "write numbers in plain digits, or other texts"
            )

    def _categories(self, n: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Return indices into the sorted categories, and these."""
        words = sorted(self.codes)
        place = np.empty(len(words) + 1, np.int32)
        place[[self.codes[word] for word in words]] = np.arange(len(words), dtype=np.int32)
        place[-1] = MISSING_CODE
        parts = self.texts or [np.full(n, MISSING_CODE, np.int32)]
        return place[np.concatenate(parts)], tuple(words)

    def _boolean(self, values: NDArray[np.int32], words: tuple[str, ...]) -> Column:
        truth = np.array([*(TRUTH[word.lower()] for word in words), MISSING_CODE], np.int32)
        return Column(self.name, Kind.BOOLEAN, truth[values], ("false", "true"))

    def _check_texts(self, values: NDArray[np.int32], words: tuple[str, ...]) -> None:
        out = f"leave it out with --drop {self.name}"
        self._check_odd(values, words)
        if all(is_date(word) for word in words):
            raise DataError(
                f"{self.where}: column {self.name!r} has dates or times ({words[0]!r}); turn them "
                f"into numbers, such as days since a fixed day, or {out}"
            )
        if all(is_number(word.translate(_DECIMAL_COMMA)) for word in words):
            raise DataError(
                f"{self.where}: column {self.name!r} has decimal commas ({words[0]!r}); "
                "write numbers with a point"
            )
        if len(words) >= _FEW and len(words) == (values != MISSING_CODE).sum():
            raise DataError(
                f"{self.where}: column {self.name!r} has a different text in every row, as an "
                f"identifier does, from which nothing can be learned; {out}"
            )


def _encoded(cells: pa.Array) -> tuple[list[str], NDArray[Any]]:
    """Return the different texts of some cells, and the place of each cell among them."""
    encoded = cells if hasattr(cells, "dictionary") else cells.dictionary_encode()
    words = [*map(_text, encoded.dictionary.to_pylist()), ""]
    places = encoded.indices.fill_null(len(words) - 1)
    return words, places.to_numpy(zero_copy_only=False)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).strip()
