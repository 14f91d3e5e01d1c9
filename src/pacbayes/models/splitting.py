"""The bound set: examples, or whole groups of them, drawn at random and kept from fitting."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pacbayes.defaults import bound_fraction
from pacbayes.randomness import stream

__all__ = ["Fraction", "Split", "split_off"]

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
    """Draw the bound set from the seed, without stratification: it must be a random sample.

    Args:
        fraction: of the examples, or of the groups.
        groups: label of each example's group; a group goes to one side as a whole.
        kept: indices of the examples to split, sorted; the others are on neither side.
    """
    if kept is not None:
        found = split_off(len(kept), fraction, seed, None if groups is None else groups[kept])
        return Split(kept[found.own], kept[found.bound], seed)
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(units.max()) + 1
    if fraction != "auto" and not 0 < fraction < 1:
        raise ValueError(f"bound_fraction must be 'auto' or in (0, 1), got {fraction!r}")
    if count < 2:
        raise ValueError(f"need at least two examples or groups to split, got n_samples = {count}")
    share = bound_fraction(count) if fraction == "auto" else float(fraction)
    size = min(count - 1, max(1, math.floor(share * count)))
    order = np.random.default_rng(stream(seed, "split")).permutation(count)
    held = np.isin(units, order[:size])
    return Split(np.flatnonzero(~held), np.flatnonzero(held), seed)
