"""What a page shows, whichever kind of folder it is about.

A page is about a folder with a predictor, its certificates and the evidence for them. `networks`
and `models` fill in `Contents`, each from its own records; sections read nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.bounds import percent_up
from pacbayes.bounds.domain import number_up
from pacbayes.certificates.explanation import Beside, Step, percent
from pacbayes.choices import Predictor
from pacbayes.report.charts import Mark

if TYPE_CHECKING:
    from pacbayes.certificates.certificate import Certificate
    from pacbayes.report.answers import Answers
    from pacbayes.report.training import LayerMovement
    from pacbayes.training.loop import Evaluation
    from pacbayes.verify import Finding

__all__ = ["Claims", "Commands", "Contents", "Shown", "Table", "Unit", "portable"]


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
    """

    key: str
    file: str
    title: str
    certificate: Certificate
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    beside: tuple[Beside, ...]
    findings: tuple[Finding, ...]
    paper: str | None = None

    @property
    def unit(self) -> Unit:
        """How its numbers are written."""
        return Unit.of(self.certificate.scale)


@dataclass(frozen=True)
class Claims:
    """Certificates that share δ and hold together, each with its checks, in one table."""

    title: str
    certificates: tuple[tuple[Certificate, Iterable[Finding]], ...]
    note: str


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
        data, predictor: what the data and the predictor are called.
        about: the predictor and its data in a line or two.
        certificates: that of the predictor which answers by default comes first.
        claims: certificates beside these, which hold together.
        unchecked: what the checks do not do without --full.
        uncertified: what is said, and which command helps, if nothing is certified.
        again: how to make it again.
        new: a file of new examples that it predicts.
        hashes, settings: by name.
        versions: of every component, by what was made with it.
        training: every evaluation, and the one whose weights were kept.
        answers: measured on data; those of the first certificate's predictor come first.
    """

    folder: Path
    data: str
    predictor: str
    about: str
    certificates: tuple[Shown, ...]
    claims: tuple[Claims, ...]
    unchecked: str
    uncertified: Commands
    again: Commands | None
    hashes: Mapping[str, str]
    settings: Mapping[str, Any]
    versions: Mapping[str, Mapping[str, str]]
    new: str = "new.csv"
    candidates: Table | None = None
    columns: Table | None = None
    training: tuple[tuple[Evaluation, ...], Evaluation] | None = None
    movements: tuple[LayerMovement, ...] = ()
    answers: tuple[Answers, ...] = ()

    @property
    def title(self) -> str:
        """The data and the predictor."""
        return f"{self.data}, {self.predictor}"

    @property
    def bars(self) -> tuple[Mark, ...]:
        """What was measured of each candidate, with its bound; the certificate last if it is not
        one candidate's.
        """
        found = () if self.candidates is None else self.candidates.marks
        if any(mark.reach for mark in found) or not self.certificates:
            return found
        c, unit = self.certificates[0].certificate, self.certificates[0].unit
        text = f"{self.predictor}: {unit.text(c.risk)}, ≤ {c.shown}"
        return (*found, Mark("risk", unit.times * c.risk, text, unit.times * c.bound))

    @property
    def place(self) -> str:
        """The folder as a word of a command."""
        return shlex.quote(str(portable(self.folder)))

    @property
    def of_another(self) -> str:
        """What a section on the posterior says if the first certificate is not about it."""
        about_prior = self.certificates and self.certificates[0].key == Predictor.FIXED.value
        return " This is about Q, which the first certificate does not cover." * bool(about_prior)


def portable(path: Path) -> Path:
    """Return a path as a page may show it: seen from the working directory, or its name alone.

    Pages are sent to others, whom the directories of this machine do not concern.
    """
    here, there = Path.cwd().resolve(), path.resolve()
    return there.relative_to(here) if there.is_relative_to(here) else Path(there.name)
