"""What a certificate of any model assumes and nobody can check: the issuer's word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["SplitAssumptions", "predictor_assumptions"]


def _of_examples(unit: str, *, repeats: bool, deduplicated: bool = False) -> Iterator[str]:
    yield f"The {unit} are independent, and new ones come from the same source."
    yield "Their features were computed without looking at the bound set."
    if deduplicated:
        yield "New examples do not repeat either: copies were removed (by deduplicate=True)."
    if repeats:
        yield "Examples that repeat are natural in these data (declared by repeats=True)."


def _of_predictor() -> Iterator[str]:
    yield "What predicts does not change, treats each example by itself, and keeps no other state."
    yield "The set of classes, δ and what is certified were chosen in advance."


def predictor_assumptions(unit: str, *, repeats: bool) -> tuple[str, ...]:
    """Return what the certificate of a given predictor assumes, one sentence each.

    Args:
        unit: examples or groups.
        repeats: whether examples were declared to repeat naturally.
    """
    return (
        *_of_examples(unit, repeats=repeats),
        "The predictor was fixed, features and all, before anyone saw these examples.",
        *_of_predictor(),
        "No other predictor was tried on these examples.",
    )


@dataclass(frozen=True)
class SplitAssumptions:
    """What certificates on a bound set that was split off assume.

    Attributes:
        unit: examples or groups.
        seed: that the bound set was drawn from.
        repeats: whether examples were declared to repeat naturally.
        deduplicated: whether all but the first of equal examples were removed.
    """

    unit: str
    seed: int
    repeats: bool = False
    deduplicated: bool = False

    def sentences(self) -> Iterator[str]:
        """Yield what the reader has to believe, one sentence each."""
        yield from _of_examples(self.unit, repeats=self.repeats, deduplicated=self.deduplicated)
        yield f"No other split was tried than that of seed {self.seed}."
        yield (
            "The candidates, and all that they keep outside their parameters, never saw the bound "
            "set: not before fitting, and not when their settings were chosen."
        )
        yield from _of_predictor()
        yield "Nothing else was tried on the bound set than the ledger pays for."
