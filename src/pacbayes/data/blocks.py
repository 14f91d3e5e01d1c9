"""Blocks of rows: whatever looks at all examples holds a few of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

__all__ = ["blocks_of"]

_NUMBERS = 1_000_000  # of a block


def blocks_of(rows: NDArray[Any]) -> Iterator[slice]:
    """Divide the rows of an array into blocks of a million numbers."""
    size = max(1, _NUMBERS * len(rows) // max(1, rows.size))
    return (slice(start, start + size) for start in range(0, len(rows), size))
