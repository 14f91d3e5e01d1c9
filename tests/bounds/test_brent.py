"""Brent's minimisation against scipy's."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from pacbayes.bounds.brent import minimiser
from pacbayes.bounds.catoni import _bound


def scipys(f, low, high, tolerance):
    options = {"xatol": tolerance}
    return minimize_scalar(f, bounds=(low, high), method="bounded", options=options).x


@pytest.mark.parametrize(
    "f",
    [
        *(math.cos, math.exp, abs, lambda x: x, lambda x: -x, lambda x: 0.0),
        *(lambda x: (x - 1.7) ** 2, lambda x: math.sin(5 * x) + 0.1 * x),
        *(lambda x: float(x > 1), lambda x: abs(x - 2) ** 0.5),
    ],
)
@pytest.mark.parametrize(("low", "high"), [(-1.0, 4.0), (0.0, 1e-3), (1.0, 30.0)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
def test_minima_are_scipys_bit_by_bit(f, low, high, tolerance):
    assert minimiser(f, low, high, tolerance) == scipys(f, low, high, tolerance)


def test_minima_of_catonis_bound_are_scipys_bit_by_bit():
    random = np.random.default_rng(0)
    for _ in range(300):
        risk, kl = random.uniform(0, 0.9), random.exponential(1000)
        n, low = int(random.integers(10, 100_000)), random.uniform(0.1, 10)

        def f(x, risk=risk, kl=kl, n=n):
            return _bound(risk, kl, n, 0.05, math.exp(x), 1.1)

        assert minimiser(f, low, low + 0.3, 1e-9) == scipys(f, low, low + 0.3, 1e-9)


def test_what_is_smallest_is_found():
    assert minimiser(lambda x: (x - 1.7) ** 2, 0.0, 5.0, 1e-9) == pytest.approx(1.7, abs=1e-8)
