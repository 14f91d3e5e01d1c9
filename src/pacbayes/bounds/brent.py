"""Brent's minimisation on an interval, without the import of scipy.optimize (0.4 s)."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["minimiser"]

_GOLDEN = 0.5 * (3 - math.sqrt(5))
_ROOT_EPSILON = math.sqrt(2.2e-16)
_MOST_CALLS = 500


def minimiser(f: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return where f is smallest between two points.

    Steps go to the minimum of a parabola through the three best points, or else divide the larger
    part by the golden section. They are scipy's (`minimize_scalar`, method "bounded"), bit by bit.

    Reference: Brent 1973, chapter 5.
    """
    best = second = third = low + _GOLDEN * (high - low)
    at_best = at_second = at_third = f(best)
    step = before = 0.0  # the last step, and the one before it
    for _ in range(_MOST_CALLS - 1):
        middle, least = 0.5 * (low + high), _ROOT_EPSILON * abs(best) + tolerance / 3
        if not abs(best - middle) > 2 * least - 0.5 * (high - low):
            break
        jump = None
        if abs(before) > least:
            r = (best - second) * (at_best - at_third)
            q = (best - third) * (at_best - at_second)
            p, q = (best - third) * q - (best - second) * r, 2 * (q - r)
            p, q = -p if q > 0 else p, abs(q)
            wide = abs(0.5 * q * before)
            before = step
            if abs(p) < wide and q * (low - best) < p < q * (high - best):
                jump = p / q
                if best + jump - low < 2 * least or high - (best + jump) < 2 * least:
                    jump = least if middle >= best else -least
        if jump is None:
            before = low - best if best >= middle else high - best
            jump = _GOLDEN * before
        step = jump
        x = best + (1 if step >= 0 else -1) * max(abs(step), least)
        at_x = f(x)
        if at_x <= at_best:
            low, high = (best, high) if x >= best else (low, best)
            third, at_third, second, at_second = second, at_second, best, at_best
            best, at_best = x, at_x
            continue
        low, high = (x, high) if x < best else (low, x)
        if at_x <= at_second or second == best:
            third, at_third, second, at_second = second, at_second, x, at_x
        elif at_x <= at_third or third in (best, second):
            third, at_third = x, at_x
    return best
