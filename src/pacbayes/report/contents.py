"""What a page shows, whichever kind of folder it is about.

`networks` and `models` make it, each from its own records; sections read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pacbayes.bounds import confidence, percent_up
from pacbayes.bounds.domain import number_up
from pacbayes.certificates.explanation import Beside, Step, percent
from pacbayes.choices import Predictor
from pacbayes.report.charts import Mark
from pacbayes.report.markup import element

if TYPE_CHECKING:
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.report.answers import Answers
    from pacbayes.report.training import LayerMovement
    from pacbayes.training.loop import Evaluation
    from pacbayes.verify import Finding

    Claim = tuple[Certificate, Iterable[Finding]]

__all__ = ["Commands", "Contents", "Shown", "Table", "Unit", "portable", "verdict"]


@dataclass(frozen=True)
class Unit:
    """How the numbers of a certificate are written: errors in per cent, costs as they are."""

    times: float = 100.0
    sign: str = " %"

    @classmethod
    def of(cls, scale: float) -> Unit:
        """Return how losses up to `scale` are written."""
        return cls() if scale == 1 else cls(1.0, "")

    def text(self, value: float) -> str:
        """Return a measured value as text."""
        return percent(value) if self.sign else f"{value:.4g}"

    def up(self, value: float) -> str:
        """Return a bound as text, rounded up."""
        return percent_up(value) if self.sign else number_up(value)

    def mark(self, name: str, value: float, text: str) -> Mark:
        """Return a value on the axis of the bound."""
        return Mark("ink", self.times * value, f"{name}: {text}")


@dataclass(frozen=True)
class Shown:
    """One certificate as a page shows it.

    Attributes:
        key: what distinguishes its charts from those of others.
        title: the predictor that it covers.
        steps: parts that add up to the bound.
        marks: other values on the axis of the bound.
        beside: rows that compare it with other numbers.
        paper: the paper's column that is compared too, if there is one.
        unchecked: what the checks took as recorded; empty if nothing.
    """

    key: str
    file: str
    title: str
    certificate: Certificate
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    beside: tuple[Beside, ...]
    findings: tuple[Finding, ...]
    unchecked: str
    paper: str | None = None

    @property
    def unit(self) -> Unit:
        """How its numbers are written."""
        return Unit.of(self.certificate.scale)


@dataclass(frozen=True)
class Table:
    """A table, what is said about it, and values of it that are drawn as bars."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    class_: str | None = None
    marks: tuple[Mark, ...] = ()
    unit: Unit = Unit()

    @classmethod
    def of_ledger(cls, file: str, ledger: dict[str, float], delta: float) -> Table:
        """Return how the failure probability of a certificate is divided."""
        rows = [(k, f"{part:.6g}", f"{100 * part / delta:.1f} %") for k, part in ledger.items()]
        rows.append(("total", f"{sum(ledger.values()):.6g}", f"of δ = {delta:g}"))
        caption = f"δ ledger of {file}: how its failure probability is divided"
        return cls(caption, ("part", "δ", "share"), tuple(rows), class_="beside")

    @classmethod
    def of_claims(cls, caption: str, claims: Sequence[Claim], note: str) -> Table:
        """Return certificates that share δ, with their checks."""
        header = ("about", "at most", "measured", "counted", "pacbayes verify")
        rows = []
        for c, findings in claims:
            measured = Unit.of(c.scale).text(c.risk) if c.n else "–"
            about = f"{c.quantity}, by {c.theorem}"
            rows.append((about, c.shown, measured, f"{c.n}", verdict(findings)))
        hold = f"With probability {confidence(claims[0][0].delta)} all of these hold together"
        return cls(caption, header, tuple(rows), f"{hold}{note}", class_="beside")

    @classmethod
    def of_hashes(cls, hashes: Mapping[str, str]) -> Table:
        """Return the hash of each object."""
        rows = [(name, element("code", value)) for name, value in hashes.items()]
        return cls("SHA-256 hashes", ("object", "hash"), tuple(rows), class_="plain")

    @classmethod
    def of_versions(cls, versions: Mapping[str, Mapping[str, str]]) -> Table:
        """Return the version of every component, by what was made with it."""
        found = versions.values()
        components = dict.fromkeys(chain(*found))
        rows = [(name, *(str(v.get(name, "–")) for v in found)) for name in components]
        caption = "Software and hardware; results are bit-identical only where these agree"
        return cls(caption, ("component", *versions), tuple(rows), class_="wide")


@dataclass(frozen=True)
class Commands:
    """Commands for one purpose, and a remark on them."""

    title: str
    lines: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Contents:
    """Everything that a page shows; what a folder does not have is empty or None.

    Attributes:
        certificates: that of the predictor which answers by default comes first.
        uncertified: what is said, and which command helps, if nothing is certified.
        commands: how to repeat, check and use it.
        facts: ledgers, hashes and versions.
        claims: certificates that hold together, in one table.
        training: every evaluation, and the one whose weights were kept.
        answers: measured on data; those of the first certificate's predictor come first.
    """

    title: str
    lead: str
    certificates: tuple[Shown, ...]
    uncertified: Commands
    commands: tuple[Commands, ...]
    facts: tuple[Table, ...]
    settings: tuple[tuple[str, str], ...]
    claims: tuple[Table, ...] = ()
    candidates: Table | None = None
    columns: Table | None = None
    training: tuple[tuple[Evaluation, ...], Evaluation] | None = None
    movements: tuple[LayerMovement, ...] = ()
    answers: tuple[Answers, ...] = ()

    @property
    def of_another(self) -> str:
        """What a section on the posterior says if the first certificate is not about it."""
        about_prior = self.certificates and self.certificates[0].key == Predictor.FIXED.value
        return " This is about Q, which the first certificate does not cover." * bool(about_prior)


def verdict(findings: Iterable[Finding]) -> str:
    """Return the result of all checks in a few words, for a row of a table."""
    failed = [finding.name for finding in findings if not finding.holds]
    return f"✗ does NOT hold: {', '.join(failed)}" if failed else "✓ all checks passed"


def portable(path: Path) -> Path:
    """Return a path as a page may show it: seen from the working directory, or its name alone.

    Pages are sent to others, whom the directories of this machine do not concern.
    """
    here, there = Path.cwd().resolve(), path.resolve()
    return there.relative_to(here) if there.is_relative_to(here) else Path(there.name)
