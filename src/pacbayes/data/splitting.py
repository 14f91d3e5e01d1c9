"""The split: examples, or whole groups of them, that are drawn at random and kept for the bound."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import LEAST_EXAMPLES
from pacbayes.defaults import bound_fraction
from pacbayes.randomness import stream

__all__ = ["Fraction", "Indices", "Split", "split", "split_off"]

Indices = NDArray[np.int64]
Fraction = float | Literal["auto"]


@dataclass(frozen=True)
class Split:
    """A bound set and the rest of the examples.

    Attributes:
        own: indices of the examples that candidates are fitted to, sorted.
        bound: indices of the bound set, sorted.
        seed: the seed that the bound set was drawn from.
    """

    own: Indices
    bound: Indices
    seed: int

    @property
    def sha256(self) -> str:
        """The SHA-256 of the indices of the bound set, as little-endian 64-bit integers."""
        return hashlib.sha256(self.bound.astype("<i8").tobytes()).hexdigest()


def split_off(
    n: int, fraction: Fraction, seed: int, groups: Any = None, kept: Indices | None = None
) -> Split:
    """Draw the bound set of a model from the seed.

    Args:
        fraction: of the examples, or of the groups, that are in the bound set.
        groups: label of each example's group.
        kept: indices of the examples to split, sorted; the others are on neither side.
    """
    if kept is not None:
        found = split_off(len(kept), fraction, seed, None if groups is None else groups[kept])
        return Split(kept[found.own], kept[found.bound], seed)
    if fraction != "auto" and not 0 < fraction < 1:
        raise ValueError(f"bound_fraction must be 'auto' or in (0, 1), got {fraction!r}")

    def size(count: int) -> int:
        if count < 2:
            raise ValueError(
                f"need at least two examples or groups to split, got n_samples = {count}"
            )
        share = bound_fraction(count) if fraction == "auto" else float(fraction)
        return min(count - 1, max(1, math.floor(share * count)))

    held = _drawn_first(n, size, seed, groups)
    return Split(np.flatnonzero(~held), np.flatnonzero(held), seed)


def split(
    n: int, fraction: float, seed: int, groups: NDArray[Any] | None = None
) -> tuple[Indices, Indices]:
    """Split n examples into those the prior of a network learns from, and the bound set.

    Args:
        fraction: of the examples, or of the groups, that the prior learns from.
        groups: which group each example belongs to.
    """

    def size(count: int) -> int:
        own = round(fraction * count)
        if not 0 < own <= count - LEAST_EXAMPLES:
            raise ValueError(
                f"a prior fraction of {fraction:g} gives {own} of {count} examples to the prior "
                f"and {count - own} to the bound; each needs examples, the bound at least "
                f"{LEAST_EXAMPLES}"
            )
        return own

    own = _drawn_first(n, size, seed, groups)
    return np.flatnonzero(own), np.flatnonzero(~own)


def _drawn_first(
    n: int, size: Callable[[int], int], seed: int, groups: Any = None
) -> NDArray[np.bool_]:
    """Return which examples are in the units that are drawn first, without stratification.

    Both parts are then random samples of the units.

    Args:
        size: how many units to draw, of their number.
        groups: label of each example's group; a group goes to one side as a whole. Without groups
            each example is a unit.
    """
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(units.max()) + 1
    chosen = np.zeros(count, bool)
    first = size(count)
    chosen[np.random.default_rng(stream(seed, "split")).permutation(count)[:first]] = True
    found: NDArray[np.bool_] = chosen[units]
    return found
