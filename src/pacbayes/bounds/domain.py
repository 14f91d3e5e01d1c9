"""Argument checks and upward rounding, shared by all bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import SupportsFloat

__all__ = ["LARGEST_N", "check", "check_probability", "confidence", "percent_up", "upward"]

LARGEST_N = 10**15  # integers up to here are exact in float64


def check(risk: float, kl: float, n: int, delta: float, *, least_n: int = 1) -> None:
    """Raise ValueError unless risk ∈ [0, 1], KL ≥ 0 and finite, n ≥ least_n and δ ∈ (0, 1)."""
    if not 0 <= risk <= 1:
        raise ValueError(f"risk must be in [0, 1], got {risk}")
    if not (kl >= 0 and math.isfinite(kl)):
        raise ValueError(f"kl must be finite and at least 0, got {kl}")
    if not least_n <= n <= LARGEST_N:
        raise ValueError(f"n must be at least {least_n} and at most 10**15, got {n}")
    check_probability(delta)


def check_probability(delta: float) -> None:
    """Raise ValueError unless δ ∈ (0, 1)."""
    if not (isinstance(delta, float | SupportsFloat) and 0 < delta < 1):
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")


def percent_up(value: float, digits: int = 2) -> str:
    """Format a fraction as a percentage, rounded up so that a printed bound still holds."""
    scale = 10**digits
    return f"{math.ceil(Fraction(value) * 100 * scale) / scale:.{digits}f} %"


def number_up(value: float, digits: int = 4) -> str:
    """Format a number to some significant digits, rounded up so that a printed bound still holds.

    >>> number_up(1.54781), number_up(12.0), number_up(1 / 3)
    ('1.548', '12', '0.3334')
    """
    return str(Context(digits, ROUND_CEILING).create_decimal_from_float(value))


def confidence(delta: float) -> str:
    """Format 1 − δ exactly in decimals, never as 1.

    >>> confidence(0.05), confidence(1e-7), confidence(1e-30)
    ('0.95', '0.9999999', '1 − 1e-30')
    """
    exact = 1 - Decimal(repr(delta))
    return str(exact) if delta >= 1e-15 else f"1 − {delta:g}"


def upward(x: float) -> float:
    """Return x·(1 + 2⁻⁴⁶), which is above the exact value of a well-conditioned positive formula.

    A dozen correctly rounded operations err by at most a dozen units of 2⁻⁵². This adds 64.
    """
    return x * (1 + 2.0**-46)
