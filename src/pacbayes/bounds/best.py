"""The best of several bounds, at its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["best_of"]

Bound = Callable[[float, float, int, float], float]


def best_of(
    bounds: Mapping[str, Bound], risk: float, kl: float, n: int, delta: float
) -> tuple[str, float]:
    """The least of k bounds, each at δ/k: all hold at once, so choosing among them is free.

    Returns:
        Its name and its value.
    """
    if not bounds:
        raise ValueError("best_of needs at least one bound")
    values = {name: bound(risk, kl, n, delta / len(bounds)) for name, bound in bounds.items()}
    name = min(values, key=values.__getitem__)
    return name, values[name]
