"""What a certificate assumes and no file can show: the issuer's word, visible as such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Assumptions"]

Covers = Literal["network", "candidates", "predictor"]
_BEFORE: dict[Covers, tuple[str, ...]] = {
    "network": (
        "Theorem, inequality and number of draws were chosen in advance.",
        "The posterior was final before any of its draws were seen.",
        "Nothing else was tried on the bound set than the ledger pays for.",
    ),
    "candidates": (),
    "predictor": (),
}
_OF_ANSWERS = (
    "What predicts does not change, treats each example by itself, and keeps no other state.",
    "The set of classes, δ and what is certified were chosen in advance.",
)
_AFTER: dict[Covers, tuple[str, ...]] = {
    "network": (),
    "candidates": (
        "The candidates, and all that they keep outside their parameters, never saw the bound set: "
        "not before fitting, and not when their settings were chosen.",
        *_OF_ANSWERS,
        "Nothing else was tried on the bound set than the ledger pays for.",
    ),
    "predictor": (
        "The predictor was fixed, features and all, before anyone saw these examples.",
        *_OF_ANSWERS,
        "No other predictor was tried on these examples.",
    ),
}


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a certificate; iterate over them for one sentence each.

    Attributes:
        data: name of the data, as run.json has it.
        repeats: whether examples were declared to repeat naturally.
        deduplicated: True if all but the first of equal examples were removed.
        split_seed: seed that divided the examples into the prior's or the candidates' part and the
            bound set; None if there was no split.
        prior_seed: seed of a data-free prior, which the ledger pays for; None for other priors.
        body_sha256: hash of the parameters and buffers that predict but are not part of Q.
        frozen_sha256: hash of the frozen body that computed the features in advance.
        code: module of your own that computes activations, by the name of its class.
        preprocessing: what was fitted before the network, and to which examples.
        group: column that says which examples belong together, "" if it has no name; groups are
            then independent. None if examples are.
        covers: a network with its prior, candidates that were fitted to the other examples, or a
            predictor that was given.
    """

    data: str | None = None
    repeats: bool = False
    split_seed: int | None = None
    prior_seed: int | None = None
    body_sha256: str | None = None
    preprocessing: str | None = None
    deduplicated: bool | None = None
    code: str | None = None
    group: str | None = None
    frozen_sha256: str | None = None
    covers: Covers = "network"

    @property
    def unit(self) -> str:
        """What is independent: examples or groups."""
        return "examples" if self.group is None else "groups"

    def __iter__(self) -> Iterator[str]:
        return self.sentences()

    def __len__(self) -> int:
        return len(tuple(self.sentences()))

    def __getitem__(self, index: int) -> str:
        return tuple(self.sentences())[index]

    def sentences(self) -> Iterator[str]:
        """Yield what the reader has to believe, one sentence each."""
        source = "and new ones come from the same source"
        if self.group:
            yield (
                f"The groups (column {self.group!r}) are independent, {source}; examples of one "
                "group need not be."
            )
        else:
            yield f"The {self.unit} are independent, {source}."
        yield "Their features were computed without looking at the bound set."
        yield from _BEFORE[self.covers]
        option = ("--{}" if self.covers == "network" else "{}=True").format
        if self.deduplicated:
            by = option("deduplicate")
            yield f"New examples do not repeat either: copies were removed (by {by})."
        if self.repeats:
            by = option("repeats")
            yield f"Examples that repeat are natural in these data (declared by {by})."
        if self.split_seed is not None:
            yield f"No other split was tried than that of seed {self.split_seed}."
        elif self.prior_seed is None and self.covers == "network":
            yield "The prior was fixed before the bound set was seen."
        if self.body_sha256 is not None:
            yield f"The fixed body has not seen the bound set (SHA-256 {self.body_sha256})."
        if self.frozen_sha256 is not None:
            yield (
                "The frozen body that computed the features has not seen the bound set (SHA-256 "
                f"{self.frozen_sha256})."
            )
        if self.code is not None:
            yield f"The code of {self.code} keeps nothing of the bound set outside its tensors."
        if self.preprocessing is not None:
            yield f"Preprocessing: {self.preprocessing}."
        yield from _AFTER[self.covers]
