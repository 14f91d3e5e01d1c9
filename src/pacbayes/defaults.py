"""Defaults for tables, as functions of the number of examples, for Python and the command line.

They are pure functions without torch. How they were chosen is in docs/recipes.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = [
    "LEAST_BOUND_SET",
    "LEAST_STEPS",
    "WIDTHS",
    "batch_size",
    "bound_fraction",
    "for_module",
    "for_table",
    "linear_weight",
    "prior_epochs",
    "prior_fraction",
]

WIDTHS = (100,)  # of the hidden layers of a network for tables
LEAST_BOUND_SET = 8  # examples
LEAST_STEPS = 3000  # of the optimiser, in which a prior learns


def prior_fraction(n: int) -> float:
    """Return the fraction of n examples that a network's prior learns from.

    1 − 0.5·min(1, (1000/n)^¼): 50 % of up to 1000, 60 % of 2500, 72 % of 10,000, 91 % of a million;
    but at most so many that `LEAST_BOUND_SET` examples remain.
    """
    return min(1 - _falling(0.5, n), 1 - LEAST_BOUND_SET / n)


def prior_epochs(own: int, batch: int) -> int:
    """Return the epochs in which a prior learns from its own examples.

    At least 100, and enough for `LEAST_STEPS` steps of the optimiser: a hundred epochs of sixty
    examples are 400 steps, after which a linear network has hardly learned.

    Args:
        own: number of the prior's examples.
        batch: number of examples in a step.
    """
    steps = max(1, math.ceil(own / batch))  # of an epoch
    return max(100, math.ceil(LEAST_STEPS / steps))


def batch_size(n: int) -> int:
    """Return the batch size for n examples: enough steps for few, enough work for many."""
    return min(512, max(16, n // 100))


def for_table(n: int, given: Mapping[str, Any], groups: int | None = None) -> dict[str, Any]:
    """Return the settings of a network for a table of n examples; what is given, not None, stays.

    A prior fraction of 0 is a data-free prior.

    Args:
        groups: number of groups, if examples belong together; the split is of groups.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    fraction = prior_fraction(n if groups is None else groups)
    found: dict[str, Any] = {"widths": WIDTHS, "prior_fraction": fraction} | chosen
    if fraction := found["prior_fraction"]:
        own = round(fraction * n)
        batch = found.get("batch_size") or batch_size(own)
        found.setdefault("prior_epochs", prior_epochs(own, batch))
    return found


def for_module(n: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a network that is not dense, for n examples; what is given stays.

    One draw for each example and step, and few evaluations, since draws of a module are dear. Near
    a learned prior, where the held-out theorem mostly wins, the posterior stays at the prior.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    learned = bool(chosen.get("prior_fraction"))
    found = _NEAR_A_LEARNED_MODULE if learned else _DATA_FREE_MODULE
    return {"batch_size": min(128 if learned else 256, batch_size(n))} | found | chosen


_DATA_FREE_MODULE: dict[str, Any] = {
    "epochs": 30,
    "learning_rate": 0.03,
    "samples": 1,
    "evaluation_samples": 1,
    "kl_warmup": 0.1,
    "widths": (),
}
_NEAR_A_LEARNED_MODULE: dict[str, Any] = {
    "epochs": 0,
    "prior_epochs": 20,
    "prior_rate": 0.005,
    "prior_scale": 0.003,
    "samples": 1,
    "evaluation_samples": 1,
    "learned_scale": False,
    "widths": (),
}


def bound_fraction(n: int) -> float:
    """Return the fraction of n examples or groups that any other model is certified on.

    0.45·min(1, (1000/n)^¼): 45 % of up to 1000, 36 % of 2500, 25 % of 10,000, 8 % of a million.
    """
    return _falling(0.45, n)


def _falling(most: float, n: int) -> float:
    """Return a fraction that falls so slowly that the part itself grows as n^¾."""
    return most * min(1.0, math.pow(1000 / n, 0.25))


def linear_weight(n: int) -> float:
    """Return the weight of the linear model in the mean of candidates that are fitted to a table.

    min(1, 1000/n): the others have weight 1, and gain more from further examples.
    """
    return min(1.0, 1000 / n)
