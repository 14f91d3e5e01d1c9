"""The δ ledger: how a certificate spends its failure probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from types import MappingProxyType

from pacbayes.bounds.domain import check_probability

__all__ = ["Ledger"]


@dataclass(frozen=True)
class Ledger:
    """Named parts of δ. Raises ValueError if the parts exceed δ.

    Attributes:
        total: δ.
        parts: failure probability of each step, by name. Their exact sum is at most δ.
    """

    total: float
    parts: Mapping[str, float]

    def __post_init__(self) -> None:
        check_probability(self.total)
        for part in self.parts.values():
            check_probability(part)
        if sum(map(Fraction, self.parts.values())) > Fraction(self.total):
            raise ValueError(f"the ledger {dict(self.parts)} spends more than δ = {self.total}")
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    @classmethod
    def equal(cls, total: float, *names: str) -> Ledger:
        """Split δ into equal parts, each rounded down."""
        check_probability(total)
        part = total / len(names)
        if Fraction(part) * len(names) > Fraction(total):
            part = nextafter(part, 0.0)
        return cls(total, dict.fromkeys(names, part))

    def __getitem__(self, name: str) -> float:
        return self.parts[name]
