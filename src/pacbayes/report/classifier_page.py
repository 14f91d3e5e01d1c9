"""One self-contained HTML page about a saved classifier."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pacbayes.bounds import clopper_pearson, percent_up
from pacbayes.certificates.explanation import percent
from pacbayes.certified.certificate import HeldOutCertificate
from pacbayes.certified.claims import OVERALL, part_of
from pacbayes.certified.evidence import Evidence
from pacbayes.certified.saved.checking import check_classifier
from pacbayes.certified.saved.folder import read_evidence
from pacbayes.certified.saved.record import ClassifierRecord, read_certificates, read_record
from pacbayes.files import load_json, write_atomically
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, card, command_block, details, document
from pacbayes.verify import Finding

__all__ = ["classifier_page", "write_classifier_page"]


@dataclass(frozen=True)
class _Contents:
    """Everything the page shows."""

    folder: Path
    record: ClassifierRecord
    evidence: Evidence
    part: str
    issued: dict[str, HeldOutCertificate]
    findings: list[Finding]
    test: dict[str, float] | None

    @property
    def certificate(self) -> HeldOutCertificate:
        return self.issued[self.part]

    @property
    def parts(self) -> dict[str, str]:
        """The part of the ledger that each candidate's own certificate spends."""
        several = len(self.record.claims) > 1
        return {name: part_of(name, OVERALL, several=several) for name in self.record.shares}


def write_classifier_page(folder: Path, out: Path) -> None:
    """Write the page of a classifier's folder."""
    write_atomically(out, classifier_page(folder).encode())


def classifier_page(folder: Path) -> str:
    """Return the page of a classifier's folder."""
    record = read_record(folder)
    found, test = read_certificates(folder), folder / "test.json"
    contents = _Contents(
        folder=folder,
        record=record,
        evidence=read_evidence(folder, record),
        part=found[0] if found else "",
        issued=found[1] if found else {},
        findings=list(check_classifier(folder)) if found else [],
        test=load_json(test) if test.exists() else None,
    )
    sections = [section(contents) for section in (_SECTIONS if found else _UNCERTIFIED)]
    among = f", chosen by {record.choose} among {len(record.shares)} candidates"
    lead = (
        f"{folder}: {record.chosen}{among if record.shares.keys() != {record.chosen} else ''}; "
        f"{record.n} examples, {len(contents.evidence.rows)} of them in the bound set."
    )
    return document(record.chosen, "pacbayes report", lead, sections)


def _certificate(contents: _Contents) -> Section:
    c = contents.certificate
    value = c.shown
    claim = element(
        "p",
        element("small", "at most "),
        value,
        element("small", f" {c.quantity}"),
        class_="claim",
    )
    items = [element("li", sentence) for sentence in c.assumptions]
    own = {contents.part, *contents.parts.values()}
    others = [other for part, other in contents.issued.items() if part not in own]
    body = join(
        claim,
        element("p", "Vacuous: this bound says nothing.", class_="fails") if c.vacuous else Html(),
        element("p", f"{str(c)[0].upper()}{str(c)[1:]}."),
        _verdict(contents),
        *(element("p", f"Also: {other}.") for other in others),
        element("h4", "Assumptions, which no file can show"),
        element("ul", *items),
        _comparison(contents),
        _checks(contents),
    )
    return Section("certificate", "Certificate", element("article", body))


def _withheld(contents: _Contents) -> Section:
    text = "The certificate was withheld when the classifier was fitted: nothing is guaranteed."
    return Section("certificate", "Certificate", card(element("p", text)))


def _verdict(contents: _Contents) -> Html:
    if failed := [f.name for f in contents.findings if not f.holds]:
        text = f"✗ pacbayes verify: this certificate does NOT hold. Failed: {', '.join(failed)}."
        return element("p", text, class_="verdict fails")
    count = sum(not finding.word for finding in contents.findings)
    text = f"✓ pacbayes verify: all {count} checks passed; predictions were taken as recorded."
    return element("p", text, class_="verdict holds")


def _comparison(contents: _Contents) -> Html:
    """Compare with a hold-out test of the chosen predictor alone, at the whole δ."""
    c, rows = contents.certificate, []
    if c.theorem == "held-out" and c.scale == 1:
        alone = clopper_pearson(int(c.losses) / c.n, c.n, c.delta)
        text = "hold-out bound of this predictor alone, had it been the only candidate"
        rows.append([text, percent_up(alone)])
    if c.scale == 1:
        rows.append([f"error on the bound set ({c.n} {c.unit})", percent(c.risk)])
    if contents.test is not None:
        text = f"error on the test set ({contents.test['n']:.0f} examples)"
        rows.append([text, percent(contents.test["error"])])
    caption = "The certificate compared with other numbers"
    return table(caption, ["quantity", "value"], rows, class_="beside") if rows else Html()


def _checks(contents: _Contents) -> Html:
    result: Callable[[Finding], str] = lambda f: (
        "not checked" if f.word else "passed" if f.holds else "FAILED"
    )
    rows = [[f.name, result(f), f.detail] for f in contents.findings]
    caption = "Checks of certificate.json by pacbayes verify"
    return details(caption, ["check", "result", "detail"], rows, class_="plain")


def _candidates(contents: _Contents) -> Section:
    """Show every candidate's share of δ, errors and bound."""
    e, rows = contents.evidence, []
    labels = e.labels[e.rows]
    for name, share in e.shares.items():
        c = contents.issued.get(contents.parts[name])
        shown = element("strong", name) if name == contents.record.chosen else name
        bound = "–" if c is None else c.shown
        wrong = int((e.predictions[name] != labels).sum())
        rows.append([shown, f"{100 * share:.1f} %", f"{wrong} of {len(labels)}", bound])
    header = ["candidate", "share of δ", "errors on the bound set", "bound"]
    note = (
        "All bounds hold at once, because each candidate pays with its own share of δ; so the best "
        "may be chosen. The chosen one is in bold."
    )
    body = join(table("Candidates", header, rows), element("p", note, class_="note"))
    return Section("candidates", "Candidates", card(body))


def _confusion(contents: _Contents) -> Section:
    """Show what was answered to each class; a vote shows its heaviest member."""
    e, classes = contents.evidence, contents.record.classes
    name = contents.record.chosen
    if e.weights is not None:
        name = list(e.shares)[int(e.weights.argmax())]
    labels, predicted = e.labels[e.rows], e.predictions[name]
    rows = [
        [word, *(str(int(((labels == i) & (predicted == j)).sum())) for j in range(len(classes)))]
        for i, word in enumerate(classes)
    ]
    caption = f"Answers of {name} on the bound set: rows are true classes, columns answers"
    return Section("confusion", "Confusion matrix", card(table(caption, ["class", *classes], rows)))


def _provenance(contents: _Contents) -> Section:
    r, folder = contents.record, shlex.quote(str(contents.folder))
    layout = r.layout
    rows = [[name, sha256] for name, sha256 in r.files.items()]
    body = [
        card(
            element("h3", "Verify and use"),
            command_block(f"pacbayes verify {folder}"),
            command_block(f"pacbayes verify {folder} --full"),
            element("p", "Without --full, the recorded predictions are not made again."),
            command_block(f"pacbayes predict {folder} new.csv"),
        ),
        card(table("SHA-256 of the files", ["file", "hash"], rows)),
        card(table("Versions", ["package", "version"], [[k, v] for k, v in r.versions.items()])),
    ]
    if layout is not None and layout.names is not None:
        kinds = [[n, kind.value] for n, kind in zip(layout.names, layout.kinds, strict=True)]
        body.append(card(table("Columns", ["column", "kind"], kinds)))
    return Section("provenance", "Verify and use", join(*body))


_SECTIONS = (_certificate, _candidates, _confusion, _provenance)
_UNCERTIFIED = (_withheld, _candidates, _confusion, _provenance)
