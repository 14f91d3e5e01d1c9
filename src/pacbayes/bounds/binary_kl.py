"""The binary kl divergence and its upper and lower inverses."""

from __future__ import annotations

import math
import sys

__all__ = ["binary_kl", "kl_inverse", "kl_inverse_below"]

_SMALL = 1e-8  # below, kl(q|p) is a small difference of its two terms


def binary_kl(q: float, p: float) -> float:
    """Return kl(q|p) = q ln(q/p) + (1 − q) ln((1 − q)/(1 − p))."""
    value, _ = _kl_and_error(q, p)
    return max(0.0, value)


def kl_inverse(q: float, c: float) -> float:
    """Return kl⁻¹(q, c) = sup{p ∈ [q, 1] : kl(q|p) ≤ c}, rounded up.

    The result is never below the exact value. At the upper end of the bisection's bracket, kl(q|p)
    minus a bound on its rounding error is at least c, and that end is returned.
    """
    _check(q, c)
    divergence = _kl_and_error if c >= _SMALL else _small_kl_and_error
    low, high = q, q if c == 0 else 1.0
    while low < (middle := low + 0.5 * (high - low)) < high:
        value, error = divergence(q, middle)
        if value - error >= c:
            high = middle
        else:
            low = middle
    return high


def kl_inverse_below(q: float, c: float) -> float:
    """Return inf{p ∈ [0, q] : kl(q|p) ≤ c}, rounded down, as `kl_inverse` is rounded up."""
    _check(q, c)
    low, high = q if c == 0 else 0.0, q
    while low < (middle := low + 0.5 * (high - low)) < high:
        value, error = _small_kl_and_error(q, middle)
        if value - error >= c:
            low = middle
        else:
            high = middle
    return low


def _check(q: float, c: float) -> None:
    if not 0 <= q <= 1:
        raise ValueError(f"q must be in [0, 1], got {q}")
    if not c >= 0:
        raise ValueError(f"c must be at least 0, got {c}")


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


def _small_kl_and_error(q: float, p: float) -> tuple[float, float]:
    """Return kl(q|p) and a bound on its rounding error, which stays small where p is near q.

    ln(a/b) = ±ln(1 + |a − b|/min(a, b)) has the relative error of |a − b|, as 1 + x is not rounded.
    """
    value = error = 0.0
    for weight, other, sign in ((q, p, q - p), (1 - q, 1 - p, p - q)):
        if weight == 0:
            continue
        if other == 0:
            return math.inf, 0.0
        ratio = min(abs(sign) / min(weight, other), sys.float_info.max)
        term = weight * math.log1p(ratio)
        value += math.copysign(term, sign)
        error += 8 * sys.float_info.epsilon * term
    return value, error
