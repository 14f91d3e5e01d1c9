"""Random arguments from the whole domain of the bounds."""

from __future__ import annotations

import math
from random import Random
from typing import Any


def size_of(rng: Random, least: int = 1, most: float = 1e12) -> int:
    return max(least, int(10 ** rng.uniform(0, math.log10(most))))


def delta_of(rng: Random) -> float:
    small, smaller, near_one = (10 ** rng.uniform(a, 0) for a in (-10, -300, -16))
    drawn = rng.choice([0.05, 0.5, rng.random(), small, smaller, 1 - near_one])
    return min(max(drawn, 1e-300), 1 - 2.0**-53)


def rate_of(rng: Random) -> float:
    small = 10 ** rng.uniform(-12, 0)
    return rng.choice([0.0, 1.0, rng.random(), small, 1 - small, rng.random() / 10])


def errors_of(rng: Random, n: int) -> int:
    few = rng.randrange(min(n, 20) + 1)
    some = min(n, int(n * 10 ** rng.uniform(-9, 0)))
    return rng.choice([0, few, some, n - few, n - some, rng.randrange(n + 1), n // 20])


def risk_of(rng: Random, n: int) -> float:
    return errors_of(rng, n) / n if rng.random() < 0.5 else rate_of(rng)


def kl_of(rng: Random, n: int) -> float:
    per_example = rng.uniform(0, 2) * n
    return min(1e8, rng.choice([0.0, 10 ** rng.uniform(-3, 8), per_example, rng.uniform(0, 10)]))


def four(rng: Random, least: int = 8) -> tuple[float, float, int, float]:
    n = size_of(rng, least)
    return risk_of(rng, n), kl_of(rng, n), n, delta_of(rng)


def log_ratio(rng: Random, n: int) -> tuple[float, int]:
    return rng.choice([-1, 1, 1]) * kl_of(rng, n), rng.choice([1, 1, size_of(rng, most=1e6)])


def grid_of(rng: Random, n: int) -> dict[str, Any]:
    several = [10 ** rng.uniform(-6, 1) for _ in range(rng.randrange(2, 6))]
    return rng.choice([{}, {"guess": rate_of(rng)}, {"guess": risk_of(rng, n)}, {"C": several}])
