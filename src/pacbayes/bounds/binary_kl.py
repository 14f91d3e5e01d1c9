"""The binary kl divergence and its upper and lower inverses."""

from __future__ import annotations

import math
import sys

__all__ = ["binary_kl", "kl_inverse", "kl_inverse_below"]


def binary_kl(q: float, p: float) -> float:
    """Return kl(q|p) = q ln(q/p) + (1 − q) ln((1 − q)/(1 − p))."""
    value, _ = _kl_and_error(q, p)
    return max(0.0, value)


def kl_inverse(q: float, c: float) -> float:
    """Return kl⁻¹(q, c) = sup{p ∈ [q, 1] : kl(q|p) ≤ c}, rounded up.

    The result is never below the exact value. At the upper end of the bisection's bracket, kl(q|p)
    minus a bound on its rounding error is at least c, and that end is returned.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"q must be in [0, 1], got {q}")
    if not c >= 0:
        raise ValueError(f"c must be at least 0, got {c}")
    low, high = q, 1.0
    while low < (middle := low + 0.5 * (high - low)) < high:
        value, error = _kl_and_error(q, middle)
        if value - error >= c:
            high = middle
        else:
            low = middle
    return high


def kl_inverse_below(q: float, c: float) -> float:
    """Return inf{p ∈ [0, q] : kl(q|p) ≤ c} = 1 − kl⁻¹(1 − q, c), rounded down."""
    if not 0 <= q <= 1:
        raise ValueError(f"q must be in [0, 1], got {q}")
    other = min(1.0, math.nextafter(1 - q, 2.0))
    return max(0.0, math.nextafter(1 - kl_inverse(other, c), -1.0))


def _kl_and_error(q: float, p: float) -> tuple[float, float]:
    """Return kl(q|p) and a bound on its absolute rounding error."""
    value = error = 0.0
    for weight, other in ((q, p), (1 - q, 1 - p)):
        if weight == 0:
            continue
        if other == 0:
            return math.inf, 0.0
        log_ratio = math.log(weight / other)
        value += weight * log_ratio
        # Three roundings in the ratio, one in the logarithm, two in the product and the sum.
        error += 8 * sys.float_info.epsilon * weight * (1 + abs(log_ratio))
    return value, error
