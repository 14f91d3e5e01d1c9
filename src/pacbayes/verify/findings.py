"""What a check says: findings of all kinds of certificates, and the issuer's word.

The word is what a certificate assumes and no file can show, one sentence each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from pacbayes.verify.records import ClassifierRun, NetworkRun

__all__ = [
    "COUNTED",
    "REPLAYED",
    "RESAMPLED",
    "Finding",
    "bound",
    "equal",
    "finding",
    "ledger",
    "spent",
    "word",
    "words",
]

COUNTED, RESAMPLED = "errors counted", "risk of the same draws"
REPLAYED = "predictions made again"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        word: nothing was checked; it is the issuer's word.
        bound: the verifier's own number, where the check ends in one.
    """

    name: str
    holds: bool
    detail: str
    word: bool = False
    bound: float | None = None

    @property
    def measures_risk(self) -> bool:
        """Whether the check counted, sampled or predicted, instead of trusting the claimed risk."""
        return self.name in (COUNTED, RESAMPLED, REPLAYED)


def finding(name: str, detail: str, must: Mapping[str, bool]) -> Finding:
    """Return a finding; `must` maps the text of each fault to the condition that rules it out."""
    faults = [fault for fault, absent in must.items() if not absent]
    return Finding(name, not faults, "; ".join(faults) or detail)


def equal(name: str, found: object, **claimed: object) -> Finding:
    """Return a finding that holds if certificate, run and theorem claim what was found."""
    must = {f"{found} found, {c} in the {where}": c == found for where, c in claimed.items()}
    return finding(name, str(found), must)


def word(text: str) -> Finding:
    """Return what no file can show."""
    return Finding("word", True, text, word=True)


def ledger(
    detail: str, parts: Mapping[str, float], delta: float, must: Mapping[str, bool]
) -> Finding:
    """Check that the parts of a ledger fit into δ, and what else must hold of them."""
    total = sum(map(Fraction, parts.values()))
    fits = {f"the parts add up to {float(total):g}, more than δ": total <= Fraction(delta)}
    return finding("δ ledger", detail, {**fits, **must})


def spent(parts: Mapping[str, float], part: str) -> arb:
    """Return a part of a ledger; one that is missing is so small that every bound fails."""
    return arb(parts.get(part, 1e-300))


def bound(
    theorem: str,
    claimed: float,
    value: arb,
    delta: arb,
    *,
    least: float = 0.0,
    scale: float = 1.0,
    about: str = "",
) -> Finding:
    """Check that a claimed bound is at least what its theorem gives.

    Args:
        least: the risk, which no bound is below.
        scale: the largest loss, at which a bound says nothing and holds.
    """
    own = min(scale, float(value.upper())) if value.is_finite() else scale
    holds = least <= claimed and (claimed >= scale or bool(arb(claimed) >= value))
    detail = f"{about}{claimed:.6f} claimed, {own:.6f} needed at δ = {float(delta):g}"
    return Finding(f"bound ({theorem})", holds, detail, bound=own)


def words(
    run: NetworkRun | ClassifierRun, seen: Collection[str] = (), *, relearned: bool = False
) -> tuple[str, ...]:
    """Return what to believe of a certificate; that of a classifier must say the same.

    Args:
        seen: names of the assumptions of a network's certificate.
        relearned: whether a network's prior was learned again.
    """
    network, learned = isinstance(run, NetworkRun), True
    if isinstance(run, NetworkRun):
        source, s = run.data.source, run.settings
        whom = "examples" if source.group is None else f"groups (column {source.group!r})"
        units, learned, seed = f"{whom} of {source.name}", s.prior_fraction > 0, s.seed
        removed, repeats = source.deduplicate, s.repeats
    else:
        units, seed = "groups" if run.grouped else "examples", run.seed
        removed, repeats = run.deduplicated, run.repeats
    sentences = {
        f"The {units} are independent, and new ones come from the same source.": True,
        "Their features were computed without looking at the bound set.": True,
        "New examples do not repeat either: copies were removed (by deduplicate=True).": removed,
        "Examples that repeat are natural in these data (declared by repeats=True).": repeats,
        f"No other split was tried than that of seed {seed}.": learned,
        "Theorem, inequality and number of draws were chosen in advance.": network,
        "The posterior was final before any of its draws were seen.": network,
        "The prior learned from its own part alone; --relearn checks it.": (
            network and learned and not relearned
        ),
        "The network's code keeps nothing of the bound set outside its tensors.": "code" in seen,
        "The tensors outside Q have not seen the bound set.": "body_sha256" in seen,
        "The candidates, and all that they keep outside their parameters, never saw the bound "
        "set: not before fitting, and not when their settings were chosen.": not network,
        "What predicts does not change, treats each example by itself, and keeps no other "
        "state.": not network,
        "The set of classes, δ and what is certified were chosen in advance.": not network,
        "Nothing else was tried on the bound set than the ledger pays for.": True,
    }
    return tuple(text for text, said in sentences.items() if said)
