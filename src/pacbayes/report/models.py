"""What a page shows about a saved classifier: plain records, and no code of its models is run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import HELD_OUT, Beside, Step, percent
from pacbayes.files import DamagedFileError, load_json
from pacbayes.folders.models import read_certificates, read_evidence
from pacbayes.folders.record import (
    CERTIFICATE,
    ClassifierRecord,
    read_record,
)
from pacbayes.losses.bounded import loss_of
from pacbayes.models.candidates import MEAN
from pacbayes.models.claims import OVERALL, Evidence, part_of
from pacbayes.report.answers import Answers, Indices, confusion, guess
from pacbayes.report.charts import Mark
from pacbayes.report.contents import Claims, Commands, Contents, Shown, Table, Unit, portable
from pacbayes.report.markup import element
from pacbayes.verify import Finding, verify
from pacbayes.verify.classifiers import check_evidence

__all__ = ["collect"]

_VOTES = {"first-order": "a candidate errs, twice", "tandem": "two candidates err, four times"}
_CHOSEN = {
    "bound": "chosen by its bound",
    "cross-validation": "chosen by cross-validation",
    "vote": "weighted by its bound",
}
_ELSEWHERE = {"kind", "format", "layout", "files", "versions", "x_sha256", "source"}
_WITHHELD = "The certificate was withheld when the classifier was fitted: nothing is guaranteed."
_AGAIN = "The certificates are issued again from the recorded predictions."
_ALONE = "hold-out bound of this predictor alone, had nothing else been tried or claimed"
_HONEST = "No model saw these examples; the certificate was counted on them."
_ALL_HOLD = (
    "All bounds hold at once, because each candidate pays with its own share of δ; so the best may "
    "be chosen. The chosen one is in bold."
)
_VOTE_HOLDS = "The bound of the vote holds for all weights at once, so they may be chosen."


@dataclass(frozen=True)
class _Read:
    """What a folder says, the checks of it, and the error on a test set with its size."""

    folder: Path
    record: ClassifierRecord
    evidence: Evidence
    part: str
    issued: dict[str, Certificate]
    findings: tuple[Finding, ...]
    test: tuple[float, int] | None

    @property
    def certificate(self) -> Certificate:
        """The certificate of the chosen predictor."""
        return self.issued[self.part]

    @property
    def holds(self) -> bool:
        """Whether all checks passed; else nothing is derived from the files."""
        return all(finding.holds for finding in self.findings)

    @property
    def own(self) -> dict[str, str]:
        """The part of the ledger that each candidate's own certificate spends."""
        several = len(self.record.claims) > 1
        return {name: part_of(name, OVERALL, several=several) for name in self.record.shares}

    @property
    def labels(self) -> Indices:
        """The labels of the bound set, as indices."""
        found: Indices = self.evidence.labels[self.evidence.rows]
        return found

    @property
    def unit(self) -> Unit:
        """How losses are written."""
        return Unit.of(1.0 if self.record.costs is None else max(map(max, self.record.costs)))

    @property
    def where(self) -> str:
        """What the data are called."""
        source = self.record.source
        return f"{self.record.n} examples" if source is None else Path(source).name

    def wrong(self, answers: Indices) -> NDArray[np.bool_]:
        """Return whether each answer on the bound set errs, whatever it costs."""
        error = loss_of(np.arange(len(self.record.classes)), None, self.record.loss)
        return error(answers, self.labels) > 0

    def name(self, *, in_full: bool) -> str:
        """Return the chosen predictor in words; a mean or a vote of what, if in full."""
        members = [name for name in self.record.shares if name != MEAN]
        whole = f"{len(members)} models"
        if in_full:
            whole = " and ".join(filter(None, (", ".join(members[:-1]), members[-1])))
        if self.evidence.weights is not None:
            return f"weighted vote of {whole}"
        return f"mean of {whole}" if self.record.chosen == MEAN else self.record.chosen


def collect(folder: Path) -> Contents:
    """Collect the contents of the page about a saved classifier, without writing anything."""
    f = _read(folder)
    r = f.record
    return Contents(
        folder=folder,
        data=f.where,
        predictor=f.name(in_full=False),
        about=_about(f),
        certificates=(_shown(f),) if f.issued else (),
        claims=tuple(_claims(f)),
        unchecked="the recorded predictions are not made again",
        uncertified=Commands(_WITHHELD, ()),
        again=_again(f) if f.issued else None,
        hashes={"features": r.x_sha256} | r.files,
        settings=r.model_dump(mode="json", exclude=_ELSEWHERE),
        versions={"fitting": r.versions},
        candidates=_candidates(f) if f.holds and len(r.shares) > 1 else None,
        columns=_columns(r),
        answers=(_answers(f),) if f.holds else (),
    )


def _read(folder: Path) -> _Read:
    record = read_record(folder)
    evidence = read_evidence(folder, record)
    part, issued = read_certificates(folder, record, evidence) or ("", {})
    if issued and part not in issued:
        raise DamagedFileError(f"{folder / CERTIFICATE} is damaged: it has no part {part!r}")
    findings = tuple(verify(folder / CERTIFICATE)) if issued else (check_evidence(folder),)
    return _Read(folder, record, evidence, part, issued, findings, _test(folder / "test.json"))


def _test(path: Path) -> tuple[float, int] | None:
    if not path.exists():
        return None
    found = load_json(path)
    try:
        return float(found["error"]), int(found["n"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"{path} is damaged: {error!r}; remove it") from error


def _about(f: _Read) -> str:
    """Summarise the classifier in a line or two."""
    r, chosen = f.record, ""
    if len(r.shares) > 1 or r.choose == "cross-validation":
        chosen = f", {_CHOSEN[r.choose]}"
        chosen += f" among {len(r.shares)} candidates" if r.choose == "bound" else ""
    origin = " given in Python" if r.source is None else f" from {f.where}"
    return (
        f"{f.name(in_full=True)}{chosen}; {r.n} examples{origin}, "
        f"{len(f.evidence.rows)} of them in the bound set"
    )


def _again(f: _Read) -> Commands:
    folder = shlex.quote(str(portable(f.folder)))
    line = f"pacbayes certify {folder} --delta {f.certificate.delta:g}"
    return Commands("Reproduce", (line,), _AGAIN)


def _shown(f: _Read) -> Shown:
    """Make the view of the chosen certificate: the one place that reads this kind of record."""
    c, name, unit = f.certificate, f.name(in_full=True), f.unit
    marks = [unit.mark(short, value, unit.up(value)) for short, _, value in _hold_out(f) if f.holds]
    if f.test is not None and f.record.costs is None:
        marks.append(unit.mark("test error", f.test[0], unit.text(f.test[0])))
    return Shown(
        key="chosen",
        file=CERTIFICATE,
        title=name[:1].upper() + name[1:],
        certificate=c,
        steps=_steps(f) if f.holds else (Step("risk", "claimed, not confirmed", c.bound),),
        marks=tuple(marks),
        beside=tuple(_beside(f)) if f.holds else (),
        findings=f.findings,
    )


def _hold_out(f: _Read) -> Iterator[tuple[str, str, float]]:
    """Yield the bound of a hold-out test to compare with, and its name in short and in full."""
    c = f.certificate
    if f.evidence.weights is None and len(c.ledger) > 1:
        yield "tested alone", _ALONE, _at(c)(c.delta)
    elif f.evidence.weights is not None and c.held_out is not None:
        yield "held-out bound", HELD_OUT, c.held_out


def _at(c: Certificate) -> Callable[[float], float]:
    """Return the bound of the same losses as a function of δ."""
    return lambda delta: c.scale * c.row.bound(c.risk_upper, 0.0, c.n, delta)


def _steps(f: _Read) -> tuple[Step, ...]:
    """Return the parts of the bound: losses, finite sample, and what else was chosen or claimed.

    Each part is what the bound grows by when it is paid for too.
    """
    grown = _vote_grows(f) if f.evidence.weights is not None else _grows(f)
    before = [0.0, *(step.points for step in grown)]
    return tuple(replace(s, points=s.points - b) for s, b in zip(grown, before, strict=False))


def _grows(f: _Read) -> list[Step]:
    """Return the bound as it grows, with all that is paid for so far."""
    c, r, at = f.certificate, f.record, _at(f.certificate)
    counted, paid = f"{c.losses:g} in {c.n} {c.unit}", f"{c.theorem}, n = {c.n}, δ = {c.delta:g}"
    found = [Step("risk", f"{c.quantity} on the bound set, counted", c.risk, counted)]
    found.append(Step("sample", "finite sample", at(c.delta), paid))
    if len(r.shares) > 1:
        share = r.shares[r.chosen]
        own = f"{len(r.shares)} of them, {100 * share:.1f} % of δ for this one"
        found.append(Step("kl", "choice among the candidates", at(c.delta * share), own))
    if len(r.claims) > 1:
        others = f"{len(r.claims)} claims hold together"
        found.append(Step("monte-carlo", "other claims", c.bound, others))
    return [*found[:-1], replace(found[-1], points=c.bound)]


def _vote_grows(f: _Read) -> list[Step]:
    """Return the bound of a vote as it grows."""
    c = f.certificate
    alone, chosen = (c.row.bound(c.risk_upper, kl, c.n, c.delta) for kl in (0.0, c.kl))
    return [
        Step("risk", f"how often {_VOTES[c.theorem]}", min(1.0, c.row.factor * c.risk_upper)),
        Step("sample", "finite sample", alone, f"{c.theorem}, n = {c.n}, δ = {c.delta:g}"),
        Step("kl", "choice of the weights", chosen, f"KL {c.kl:.2f}"),
        Step("monte-carlo", "choice between two theorems", c.bound, "half of δ for each"),
    ]


def _beside(f: _Read) -> Iterator[Beside]:
    """Compare with a hold-out test of the chosen predictor alone, and with guessing."""
    c, unit = f.certificate, f.unit
    yield Beside("certificate", c.shown)
    for _, name, value in _hold_out(f):
        yield Beside(name, unit.up(value))
    yield Beside(f"{c.quantity} on the bound set ({c.n} {c.unit})", unit.text(c.risk))
    if f.test is not None and f.record.costs is None:
        yield Beside(f"{c.noun} on the test set ({f.test[1]} examples)", percent(f.test[0]))
    yield guess(
        f.evidence.labels, f.record.classes, f.evidence.groups, f.record.costs, f.record.loss
    )


def _claims(f: _Read) -> Iterator[Claims]:
    """Yield what is claimed of the chosen predictor beside its mean loss."""
    shown = {f.part, *f.own.values()}
    others = tuple((c, f.findings) for part, c in f.issued.items() if part not in shown)
    if others:
        note = " with the certificate above; they share δ."
        yield Claims("What else is certified", others, note)


def _candidates(f: _Read) -> Table:
    """Return every candidate's share of δ, its losses on the bound set and its bound."""
    weights, unit = f.evidence.weights, f.unit
    rows, marks = [], []
    for i, (name, share) in enumerate(f.record.shares.items()):
        c, wrong = f.issued.get(f.own[name]), f.wrong(f.evidence.predictions[name])
        risk = float(wrong.mean()) if c is None else c.risk
        last = "–" if c is None else c.shown
        if weights is not None:
            last = f"{100 * weights[i]:.1f} %"
        shown = element("strong", name) if name == f.record.chosen else name
        rows.append((shown, f"{100 * share:.1f} %", f"{int(wrong.sum())} of {len(wrong)}", last))
        text = f"{name}: {unit.text(risk)}" + ("" if c is None else f", ≤ {c.shown}")
        reach = 0.0 if c is None else unit.times * c.bound
        marks.append(Mark("risk", unit.times * risk, text, reach))
    spent, last = ("share of δ", "bound") if weights is None else ("weight before", "weight")
    return Table(
        caption="Candidates side by side",
        header=("candidate", spent, "errors on the bound set", last),
        rows=tuple(rows),
        note=(_ALL_HOLD if weights is None else _VOTE_HOLDS) if f.issued else "",
        class_="beside",
        marks=tuple(marks),
        unit=unit,
    )


def _columns(record: ClassifierRecord) -> Table | None:
    layout = record.layout
    if layout is None:
        return None
    kinds = [kind.value for kind in layout.kinds]
    named = zip(layout.names or (), kinds, strict=False)
    unnamed = ((f"{count} without a name", kind) for kind, count in Counter(kinds).items())
    left = f"; left out: {', '.join(layout.dropped)}." if layout.dropped else "."
    return Table(
        caption=f"{len(kinds)} columns",
        header=("column", "kind"),
        rows=tuple(named if layout.names else unnamed),
        note=f"The candidates take these columns{left}",
        class_="plain",
    )


def _answers(f: _Read) -> Answers:
    """Return the recorded answers on the bound set; those of a vote say how sure it is."""
    e, r, labels, shares = f.evidence, f.record, f.labels, None
    predicted = e.predictions.get(r.chosen)
    if e.weights is not None:
        votes = [p[:, None] == np.arange(len(r.classes)) for p in e.predictions.values()]
        shares = np.einsum("m,mnk->nk", e.weights, np.asarray(votes, np.float64))
        predicted = shares.argmax(1)
    assert predicted is not None
    note = _HONEST
    if predicted.ndim > 1:  # the likeliest of several labels
        predicted = predicted[:, 0]
        note += " Only the likeliest label of each answer is shown."
    wrong = (predicted != labels).astype(np.float64)
    if e.answers is not None:
        error = percent(float(wrong[e.answers].mean()) if e.answers.any() else None)
        note += f" It answers {e.answers.sum()} of them, with an error of {error} on these."
    found = Answers(
        who=f"The {f.name(in_full=False)}{' (certified)' if f.issued else ''}",
        part="bound set",
        where=f"the {len(labels)} examples in the bound set",
        error=float(wrong.mean()),
        confusion=confusion(labels, predicted, len(r.classes)),
        classes=r.classes,
        note=note,
    )
    if shares is None:
        return found
    sure = "in the weighted vote. Percentages are shares of the weight."
    return found.with_confidence(shares, labels, wrong, e.rows, sure)
