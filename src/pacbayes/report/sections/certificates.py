"""The section on certificates: in words, as a chart of their parts, and beside other numbers."""

from __future__ import annotations

import shlex

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import Step, beside, paper_result, percent, sentence, steps
from pacbayes.choices import Predictor
from pacbayes.report.charts import Mark, Part, stacked
from pacbayes.report.contents import IssuedCertificate, RunContents
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, command_block, details, figure, swatch

__all__ = ["certificates_section", "pieces"]

_PALEST = 0.5
_CAPTION = (
    "How the bound adds up. The dashed line marks the bound. The held-out bound is the bound that "
    "the same error would give on n examples that were not used for training."
)


def certificates_section(contents: RunContents) -> Section:
    issued = contents.issued
    if not issued:
        return Section("certificate", "Certificate", _none(contents))
    articles = [_article(i, contents) for i in issued]
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
    vacuous = "Vacuous: this bound says nothing about the error."
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
        element("p", vacuous, class_="fails") if c.vacuous else Html(),
        element("p", sentence(c)),
        element("p", _verdict(issued), class_="verdict " + ("holds" if issued.holds else "fails")),
        _chart(c, contents),
        _parts_table(c),
        _comparison(c, contents),
        _checks(issued),
    )


def _verdict(issued: IssuedCertificate) -> str:
    failed = [f.name for f in issued.findings if not f.holds]
    if failed:
        return f"✗ pacbayes verify: this certificate does NOT hold. Failed: {', '.join(failed)}."
    count = len(issued.findings)
    return f"✓ pacbayes verify: all {count} checks passed; the training risk was not recomputed."


def shades(found: list[Step]) -> list[float]:
    """Return the shade of each step: layers have one colour, each paler than the one before."""
    layers = [s for s in found if s.kind == "kl"]
    faded = iter(1 - (1 - _PALEST) * i / max(1, len(layers) - 1) for i in range(len(layers)))
    return [next(faded) if s.kind == "kl" else 1.0 for s in found]


def pieces(c: Certificate) -> list[Part]:
    """Return the pieces of a bar whose length is the bound.

    A vacuous bound is smaller than the sum of its parts, so the last pieces are cut off.
    """
    found = _without_negative_layers(list(steps(c)))
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
    layers = [s for s in found if s.kind == "kl"]
    if all(s.points >= 0 for s in layers):
        return found
    whole = Step("kl", "learned in all layers", sum(s.points for s in layers))
    return [*(s for s in found if s.kind != "kl"), whole]


def _marks(c: Certificate, contents: RunContents) -> list[Mark]:
    marks = [Mark("ink", 100 * c.held_out, f"held-out bound: {percent_up(c.held_out)}")]
    theirs = paper_result(contents.record) if c.kind is Predictor.RANDOMISED else None
    if theirs is not None and theirs.bound is not None:
        s = contents.record.settings
        text = f"paper, {s.objective} {s.activation}: {percent(theirs.bound)}"
        marks.append(Mark("ink", 100 * theirs.bound, text))
    error = getattr(contents.errors, c.kind.value, None)
    if error is not None:
        marks.append(Mark("ink", 100 * error, f"test error: {percent(error)}"))
    return marks


def _chart(c: Certificate, contents: RunContents) -> Html:
    parts, marks = pieces(c), _marks(c, contents)
    desc = "; ".join([*(p.title for p in parts), *(m.text for m in marks)])
    return figure(
        _CAPTION, stacked(f"bar-{c.kind.value}", "How the bound adds up", desc, parts, marks, " %")
    )


def _parts_table(c: Certificate) -> Html:
    found = list(steps(c))
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
    s, compared = contents.record.settings, paper_result(contents.record) is not None
    header = [
        "quantity",
        "this run",
        *([f"paper, {s.objective} {s.activation}"] if compared else []),
    ]
    rows = [
        [b.label, b.ours, b.theirs][: len(header)]
        for b in beside(c, contents.errors, contents.record)
    ]
    caption = "The certificate compared with other numbers"
    inner = table(caption, header, rows, class_="beside", hidden_caption=True)
    return element("details", element("summary", caption), inner, open="" if compared else None)


def _checks(issued: IssuedCertificate) -> Html:
    rows = [[f.name, "passed" if f.holds else "FAILED", f.detail] for f in issued.findings]
    caption = f"Checks of {issued.file} by pacbayes verify"
    return details(caption, ["check", "result", "detail"], rows, class_="plain")
