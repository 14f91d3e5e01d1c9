"""The section on certificates: in words, as a chart of their parts, and beside other numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import Step, beside, paper_result, percent, sentence, steps
from pacbayes.choices import Predictor
from pacbayes.report.charts import Mark, Part, stacked
from pacbayes.report.contents import IssuedCertificate, RunContents
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, command_block, details, figure, swatch
from pacbayes.report.sections.classes import classes_tables
from pacbayes.verify import Finding

__all__ = ["certificates_section", "pieces"]

_PALEST = 0.5
_CAPTION = (
    "How the bound adds up. The dashed line marks the bound. The held-out bound is the bound that "
    "the same error would give on n examples that were not used for training."
)


def certificates_section(contents: RunContents) -> Section:
    """Write the certificates and how their bounds add up."""
    issued = (*contents.issued, *contents.of_classes)
    if not issued:
        return Section("certificate", "Certificate", _none(contents))
    articles = [_article(i, contents) for i in contents.issued]
    articles.append(classes_tables(contents.of_classes))
    if len(issued) == 1:
        return Section("certificate", "Certificate", join(*articles))
    note = (
        "Each certificate holds with its own probability; the probability that all of them hold at "
        "once is lower. Each one names the predictor that it covers."
    )
    body = join(element("p", note, class_="note"), *articles)
    return Section("certificate", "Certificates", body)


def _none(contents: RunContents) -> Html:
    return element(
        "div",
        element(
            "p",
            "This run is trained but not certified: nothing is guaranteed about its error yet. "
            "The bound shown during training is only a guide; it leaves out the Monte-Carlo error.",
        ),
        element("p", "Issue a certificate with:"),
        command_block(f"pacbayes certify {shlex.quote(str(contents.folder))}"),
        class_="card",
    )


def _article(issued: IssuedCertificate, contents: RunContents) -> Html:
    c = issued.certificate
    return element(
        "article",
        element("h3", c.kind.title),
        element(
            "p",
            element("small", "at most "),
            percent_up(c.bound),
            element("small", " error"),
            class_="claim",
        ),
        _vacuous() if c.vacuous else Html(),
        *(element("p", remark, class_="fails") for remark in c.remarks),
        element("p", sentence(c)),
        _verdict(issued),
        _chart(c, contents),
        _parts_table(c, contents.record.layer_names),
        _comparison(c, contents),
        _assumptions(c),
        _checks(issued),
    )


def _vacuous() -> Html:
    return element("p", "Vacuous: this bound says nothing about the error.", class_="fails")


def _verdict(issued: IssuedCertificate) -> Html:
    if failed := [f.name for f in issued.findings if not f.holds]:
        text = f"✗ pacbayes verify: this certificate does NOT hold. Failed: {', '.join(failed)}."
        return element("p", text, class_="verdict fails")
    count = sum(not finding.word for finding in issued.findings)
    text = f"✓ pacbayes verify: all {count} checks passed"
    measured = any(finding.measures_risk for finding in issued.findings)
    note = "" if measured else "; the training risk was not recomputed"
    return element("p", f"{text}{note}.", class_="verdict holds")


def _assumptions(c: Certificate) -> Html:
    """List what no file can show."""
    items = [element("li", sentence) for sentence in c.assumptions.sentences()]
    return join(element("h4", "Assumptions, which no file can show"), element("ul", *items))


def shades(found: list[Step]) -> list[float]:
    """Return the shade of each step.

    The layers, which come last, have one colour, each paler than the one before.
    """
    layers = len(_layers(found))
    faded = [1 - (1 - _PALEST) * i / max(1, layers - 1) for i in range(layers)]
    return [1.0] * (len(found) - layers) + faded


def pieces(c: Certificate, names: Mapping[str, str] | None = None) -> list[Part]:
    """Return the pieces of a bar whose length is the bound.

    A vacuous bound is smaller than the sum of its parts, so the last pieces are cut off.
    """
    found = _without_negative_layers(list(steps(c, names)))
    parts, left = [], c.bound
    for s, shade in zip(found, shades(found), strict=True):
        length = min(left, max(0.0, s.points))
        left -= length
        title = f"{s.label}: {100 * s.points:.3f} percentage points"
        parts.append(Part(s.kind, 100 * length, title, shade))
    return parts


def _without_negative_layers(found: list[Step]) -> list[Step]:
    """Merge the layers into one step if the contribution of any layer is negative.

    This happens for a drawn network: the weights of a layer may be more likely under the prior than
    under the posterior, and a piece of a bar cannot have a negative length.
    """
    points = [s.points for s in _layers(found)]
    if min(points, default=0) >= 0:
        return found
    whole = Step("kl", "learned in all layers", sum(points))
    return [*(s for s in found if s.kind != "kl"), whole]


def _layers(found: list[Step]) -> list[Step]:
    return [s for s in found if s.kind == "kl"]


def _marks(c: Certificate, contents: RunContents) -> list[Mark]:
    held_out = c.held_out
    marks = [] if held_out is None else [("held-out bound", held_out, percent_up(held_out))]
    others = {
        f"paper, {_column(contents)}": _paper_bound(c, contents),
        "test error": getattr(contents.errors, c.kind.value, None),
    }
    marks += [(name, value, percent(value)) for name, value in others.items() if value is not None]
    return [Mark("ink", 100 * value, f"{name}: {text}") for name, value, text in marks]


def _paper_bound(c: Certificate, contents: RunContents) -> float | None:
    """Return the paper's bound, which is on the randomised classifier, if it is comparable."""
    theirs = paper_result(contents.record)
    if theirs is None or c.kind is not Predictor.RANDOMISED:
        return None
    return theirs.bound


def _column(contents: RunContents) -> str:
    """Return the name of the run's column in the paper's table."""
    s = contents.record.settings
    return f"{s.objective} {s.activation}"


def _chart(c: Certificate, contents: RunContents) -> Html:
    parts, marks = pieces(c, contents.record.layer_names), _marks(c, contents)
    desc = "; ".join([*(p.title for p in parts), *(m.text for m in marks)])
    return figure(
        _CAPTION, stacked(f"bar-{c.kind.value}", "How the bound adds up", desc, parts, marks, " %")
    )


def _parts_table(c: Certificate, names: Mapping[str, str]) -> Html:
    found = list(steps(c, names))
    rows: list[list[str]] = [
        [
            join(swatch(s.kind, shade), s.label, _small(s.detail)),
            f"{100 * s.points:.3f}",
        ]
        for s, shade in zip(found, shades(found), strict=True)
    ]
    rows.append([element("strong", "bound, rounded up"), element("strong", percent_up(c.bound))])
    header = ["part of the bound", "percentage points"]
    return table("The parts of the bound", header, rows, class_="sum", hidden_caption=True)


def _small(detail: str) -> Html:
    return join(" ", element("small", detail)) if detail else Html()


def _comparison(c: Certificate, contents: RunContents) -> Html:
    compared = paper_result(contents.record) is not None
    header = ["quantity", "this run"]
    if compared:
        header.append(f"paper, {_column(contents)}")
    rows = [
        [b.label, b.ours, b.theirs][: len(header)]
        for b in beside(c, contents.errors, contents.record)
    ]
    caption = "The certificate compared with other numbers"
    inner = table(caption, header, rows, class_="beside", hidden_caption=True)
    return element("details", element("summary", caption), inner, open="" if compared else None)


def _result(finding: Finding) -> str:
    if finding.word:
        return "not checked"
    return "passed" if finding.holds else "FAILED"


def _checks(issued: IssuedCertificate) -> Html:
    rows = [[f.name, _result(f), f.detail] for f in issued.findings]
    caption = f"Checks of {issued.file} by pacbayes verify"
    return details(caption, ["check", "result", "detail"], rows, class_="plain")
