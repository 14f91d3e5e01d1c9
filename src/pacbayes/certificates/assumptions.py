"""What a certificate assumes and no file can show: the issuer's word, visible as such."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Assumptions"]


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a certificate, beside independent examples.

    Attributes:
        data: name of the data, as run.json has it.
        repeats: whether examples were declared to repeat naturally.
        deduplicated: True if all but the first of equal examples were removed.
        split_seed: seed that divided the examples into the prior's part and the bound set; None if
            the prior is data-free.
        prior_seed: seed of a data-free prior, which the ledger pays for; None for other priors.
        body_sha256: hash of the parameters and buffers that predict but are not part of Q.
        frozen_sha256: hash of the frozen body that computed the features in advance.
        code: module of your own that computes activations, by the name of its class.
        preprocessing: what was fitted before the network, and to which examples.
        group: column that says which examples belong together; groups are then independent.
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

    def sentences(self) -> Iterator[str]:
        """Yield what the reader has to believe, one sentence each."""
        if self.group is None:
            yield "The examples are independent, and new ones come from the same source."
        else:
            yield (
                f"The groups (column {self.group!r}) are independent, and new ones come from the "
                "same source; examples of one group need not be."
            )
        yield "Their features were computed without looking at the bound set."
        yield "Theorem, inequality and number of draws were chosen in advance."
        yield "The posterior was final before any of its draws were seen."
        yield "Nothing else was tried on the bound set than the ledger pays for."
        if self.deduplicated:
            yield "New examples do not repeat either: copies were removed (by --deduplicate)."
        if self.repeats:
            yield "Examples that repeat are natural in these data (declared by --repeats)."
        if self.split_seed is not None:
            yield f"No other split was tried than that of seed {self.split_seed}."
        elif self.prior_seed is None:
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
