"""Every bound by name, from its numbers."""

from __future__ import annotations

from typing import Any

from pacbayes import bounds
from pacbayes.choices import Theorem

__all__ = ["calculate"]

_OPTIONS: dict[Theorem, tuple[str, ...]] = {
    "small-kl": (),
    "catoni": ("lambda", "alpha"),
    "catoni-c": ("C",),
    "mcallester": (),
    "quadratic": (),
    "thiemann": ("lambda",),
    "unexpected-bernstein": ("second-moment",),
    "split-kl": ("levels", "parts"),
    "first-order": (),
    "tandem": (),
    "c-bound": ("disagreement",),
    "disintegrated": ("networks",),
}
_NEEDED = {"split-kl": ("levels", "parts"), "c-bound": ("disagreement",)}


def calculate(
    name: Theorem, risk: float | None, kl: float, n: int, delta: float, free: dict[str, Any]
) -> dict[str, Any]:
    """The bound with the numbers it was computed from, among them those the theorem leaves free.

    Args:
        kl: KL(Q|P); for `disintegrated` ln(dQ/dP) at the drawn weights.
        free: parameters by the names of their options.
    """
    for option in free:
        if option not in _OPTIONS[name]:
            raise ValueError(f"--{option} does not belong to {name}")
    for option in _NEEDED.get(name, ()):
        if option not in free:
            raise ValueError(f"{name} needs --{option}")
    if risk is None and name != "split-kl":
        raise ValueError(f"{name} needs --risk")
    result: dict[str, Any] = {"name": name, "risk": risk, "kl": kl, "n": n, "delta": delta, **free}
    return {**result, **_value(name, risk or 0.0, kl, n, delta, free)}


def _value(
    name: Theorem, risk: float, kl: float, n: int, delta: float, free: dict[str, Any]
) -> dict[str, float]:
    given = (risk, kl, n, delta)
    lam, alpha = free.get("lambda"), free.get("alpha", bounds.ALPHA)
    match name:
        case "small-kl":
            value = bounds.small_kl(*given)
        case "catoni":
            lam = bounds.catoni_lambda(*given, alpha=alpha) if lam is None else lam
            value = bounds.catoni(*given, lam=lam, alpha=alpha)
            return {"bound": value, "lambda": lam, "alpha": alpha}
        case "catoni-c":
            value = bounds.catoni_c(*given, C=free.get("C"))
        case "mcallester":
            value = bounds.mcallester(*given)
        case "quadratic":
            value = bounds.quadratic(*given)
        case "thiemann":
            value = bounds.thiemann(*given, lam=lam)
        case "unexpected-bernstein":
            value = bounds.unexpected_bernstein(*given, second_moment=free.get("second-moment"))
        case "split-kl":
            value = bounds.split_kl(free["levels"], free["parts"], kl, n, delta)
        case "first-order":
            value = bounds.first_order(*given)
        case "tandem":
            value = bounds.tandem(*given)
        case "c-bound":
            value = bounds.c_bound(risk, free["disagreement"], kl, n, delta)
        case "disintegrated":
            value = bounds.disintegrated(*given, networks=free.get("networks", 1))
    return {"bound": value}
