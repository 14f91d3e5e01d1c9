"""The δ ledger: how a certificate spends its failure probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter
from types import MappingProxyType

from pacbayes.bounds.domain import check_probability

__all__ = ["Ledger", "below", "seed_share"]


def seed_share(seed: int) -> Fraction:
    """Return w(s) = 1/((s + 1)(s + 2)), the share of δ that the prior of seed s may spend.

    The shares of all seeds add up to 1, so any of them may be chosen: seed 0 costs ln 2 nats.
    """
    if seed < 0:
        raise ValueError(f"a seed must be at least 0, got {seed}")
    return Fraction(1, (seed + 1) * (seed + 2))


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
        return cls(total, dict.fromkeys(names, below(Fraction(total) / len(names))))

    @classmethod
    def shared(cls, total: float, shares: Mapping[str, Fraction], priors: int = 1) -> Ledger:
        """Share δ as stated, and each share equally among the priors that were tried."""
        if priors < 1:
            raise ValueError(f"priors must be at least 1, got {priors}")
        check_probability(total)
        each = {name: below(Fraction(total) * share / priors) for name, share in shares.items()}
        tried = ("", *(f"other prior {i}, " for i in range(1, priors)))
        return cls(total, {which + name: each[name] for name in shares for which in tried})

    def within(self, total: float, name: str) -> Ledger:
        """Return a ledger of a larger δ that spends the rest on `name`."""
        rest = Fraction(total) - sum(map(Fraction, self.parts.values()))
        return Ledger(total, {**self.parts, name: below(rest)})

    def __getitem__(self, name: str) -> float:
        return self.parts[name]


def below(value: Fraction) -> float:
    """Return the largest float that is at most a fraction."""
    nearest = float(value)
    return nextafter(nearest, 0.0) if Fraction(nearest) > value else nearest
