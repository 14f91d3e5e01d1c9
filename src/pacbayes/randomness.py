"""Independent random streams from one seed, one for each purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor

__all__ = ["Purpose", "keyed_generator", "one_by_one", "seeded", "stream"]

Purpose = Literal["prior", "training", "prediction", "split", "prior training", "network"]
_NUMBERS: dict[Purpose, int] = {
    "prior": 0,
    "training": 1,
    "prediction": 3,
    "split": 4,
    "prior training": 5,
    "network": 6,  # the first weights of a module, before its prior is drawn or learned
}


def stream(seed: int, purpose: Purpose) -> int:
    """Return a 64-bit seed for one purpose, from numpy's SeedSequence."""
    sequence = np.random.SeedSequence(seed, spawn_key=(_NUMBERS[purpose],))
    words = sequence.generate_state(1, np.uint64)
    return int(words[0])


def keyed_generator(key: bytes, *place: int) -> np.random.Generator:
    """Return the generator of one block of draws: the key's own SeedSequence at a place."""
    sequence = np.random.SeedSequence(int.from_bytes(key, "little"), spawn_key=place)
    return np.random.default_rng(sequence)


@contextmanager
def seeded(seed: int, purpose: Purpose) -> Iterator[None]:
    """Seed torch's generator inside the context and restore it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(seed, purpose))
        yield


def one_by_one(function: Callable[[Tensor], Tensor], x: Tensor, seed: int) -> Tensor:
    """Apply a function that draws to each example alone, seeding torch's generator by the example.

    Draws are then fresh for every new example, independent of its batch, and the same when the same
    example comes again.
    """
    key, out = stream(seed, "prediction").to_bytes(8, "little"), []
    with torch.random.fork_rng(devices=[]):
        for row in x.unbind():
            digest = hashlib.sha256(key + row.contiguous().numpy().tobytes()).digest()
            torch.manual_seed(int.from_bytes(digest[:8], "little"))
            out.append(function(row.unsqueeze(0)))
    return torch.cat(out)
