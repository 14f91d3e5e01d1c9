"""One seed, several independent streams: no purpose reuses another's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch

__all__ = ["Purpose", "seeded", "stream"]

Purpose = Literal[
    "prior", "training", "certificate", "prediction", "split", "prior training", "drawn"
]
_NUMBERS: dict[Purpose, int] = {
    "prior": 0,
    "training": 1,
    "certificate": 2,
    "prediction": 3,
    "split": 4,
    "prior training": 5,
    "drawn": 6,
}


def stream(seed: int, purpose: Purpose) -> int:
    """A 64-bit seed for one purpose, from numpy's SeedSequence."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_NUMBERS[purpose],))
    words = sequence.generate_state(1, np.uint64)
    return int(words[0])


@contextmanager
def seeded(seed: int, purpose: Purpose) -> Iterator[None]:
    """Torch's generator seeded inside, and as it was outside."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, purpose))
        yield
