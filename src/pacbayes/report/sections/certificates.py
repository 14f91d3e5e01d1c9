"""The certificates of a run: in words, as a sum that can be seen, and beside other numbers."""

from __future__ import annotations

import shlex

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import Step, beside, paper_result, percent, sentence, steps
from pacbayes.choices import DRAWN, RANDOMISED, VOTE
from pacbayes.report.charts import Mark, Part, stacked
from pacbayes.report.contents import Issued, RunFacts
from pacbayes.report.markup import Html, element, join, table
from pacbayes.report.page import Section, command_block, figure, swatch

__all__ = ["certificates"]

_COVERED = {  # short name, and what predicts so
    RANDOMISED: ("The randomised classifier", "randomised"),
    VOTE: ("The majority vote", "vote"),
    DRAWN: ("One network, drawn and kept", "drawn"),
}
_PALEST = 0.5


def certificates(facts: RunFacts) -> Section:
    if not facts.issued:
        return Section("certificate", "Certificate", _none(facts))
    title = "Certificate" if len(facts.issued) == 1 else "Certificates"
    several = (
        element(
            "p",
            "Each certificate holds by itself with its own probability; together they hold "
            "with less. The theorem says whom a certificate covers.",
            class_="note",
        )
        if facts.issued[1:]
        else Html()
    )
    return Section("certificate", title, join(several, *(_article(i, facts) for i in facts.issued)))


def _none(facts: RunFacts) -> Html:
    return element(
        "div",
        element("p", "This run is trained but not certified: nothing is promised about it yet."),
        element("p", "The bound that training shows is a guide without its Monte-Carlo error. "),
        element("p", "To issue its certificate:"),
        command_block(f"pacbayes certify {shlex.quote(str(facts.folder))}"),
        class_="card",
    )


def _article(issued: Issued, facts: RunFacts) -> Html:
    c = issued.certificate
    name, method = _COVERED.get(c.predictor, ("An unknown predictor", "randomised"))
    return element(
        "article",
        element("h3", name),
        element(
            "p",
            element("small", "at most "),
            percent_up(c.bound),
            element("small", " error"),
            class_="claim",
        ),
        element("p", "Vacuous: it says nothing.", class_="fails") if c.vacuous else Html(),
        element("p", sentence(c)),
        element("p", _verdict(issued), class_="verdict " + ("holds" if issued.holds else "fails")),
        _picture(c, facts, method),
        _sum(c),
        _beside(c, facts),
        _findings(issued),
    )


def _verdict(issued: Issued) -> str:
    failed = [f.name for f in issued.findings if not f.holds]
    if failed:
        return f"✗ pacbayes verify: does NOT hold ({', '.join(failed)})"
    count = len(issued.findings)
    return f"✓ pacbayes verify: all {count} checks hold, the training risk taken as claimed"


def shades(found: list[Step]) -> list[float]:
    """Of one colour for all layers, paler from each to the next."""
    layers = [s for s in found if s.kind == "kl"]
    faded = iter(1 - (1 - _PALEST) * i / max(1, len(layers) - 1) for i in range(len(layers)))
    return [next(faded) if s.kind == "kl" else 1.0 for s in found]


def pieces(c: Certificate) -> list[Part]:
    """The bound as pieces of a bar, which ends at the bound: a vacuous one is less than its parts.

    Layers are one piece where the drawn weights of some are likelier under the prior than under the
    posterior, since no piece has a negative length.
    """
    found = list(steps(c))
    layers = [s for s in found if s.kind == "kl"]
    if any(s.points < 0 for s in layers):
        whole = Step("kl", "what was learned in all layers", sum(s.points for s in layers))
        found = [*(s for s in found if s.kind != "kl"), whole]
    parts, left = [], c.bound
    for s, shade in zip(found, shades(found), strict=True):
        length = min(left, max(0.0, s.points))
        left -= length
        parts.append(Part(s.kind, 100 * length, f"{s.label}: {100 * s.points:.3f} points", shade))
    return parts


def _marks(c: Certificate, facts: RunFacts) -> list[Mark]:
    held = f"held-out bound: {percent_up(c.held_out)}"
    marks = [Mark("ink", 100 * c.held_out, held)]
    theirs = paper_result(facts.record) if c.predictor == RANDOMISED else None
    if theirs is not None and theirs.bound is not None:
        s = facts.record.settings
        text = f"paper, {s.objective} {s.activation}: {percent(theirs.bound)}"
        marks.append(Mark("ink", 100 * theirs.bound, text))
    if (error := _test_error(c, facts)) is not None:
        marks.append(Mark("ink", 100 * error, f"test error: {percent(error)}"))
    return marks


def _test_error(c: Certificate, facts: RunFacts) -> float | None:
    if (e := facts.errors) is None:
        return None
    return {RANDOMISED: e.randomised, VOTE: e.vote, DRAWN: e.drawn}.get(c.predictor)


def _picture(c: Certificate, facts: RunFacts, method: str) -> Html:
    parts, marks = pieces(c), _marks(c, facts)
    desc = "; ".join([*(p.title for p in parts), *(m.text for m in marks)])
    chart = stacked(f"bar-{method}", "How the bound adds up", desc, parts, marks, " %")
    caption = (
        "How it adds up. The dashed line is the bound; the held-out bound is what the same error "
        "would give, were all n examples unseen."
    )
    return figure(caption, chart)


def _sum(c: Certificate) -> Html:
    found = list(steps(c))
    rows: list[list[str]] = [
        [
            join(swatch(s.kind, shade), s.label, _small(s.detail)),
            f"{100 * s.points:.3f}",
        ]
        for s, shade in zip(found, shades(found), strict=True)
    ]
    rows.append([element("strong", "bound, rounded up"), element("strong", percent_up(c.bound))])
    header = ["part of the bound", "points"]
    return table("The parts of the bound", header, rows, class_="sum", hidden_caption=True)


def _small(detail: str) -> Html:
    return join(" ", element("small", detail)) if detail else Html()


def _beside(c: Certificate, facts: RunFacts) -> Html:
    s, compared = facts.record.settings, paper_result(facts.record) is not None
    header = ["beside", "this run", *([f"paper, {s.objective} {s.activation}"] if compared else [])]
    rows = [
        [b.label, b.ours, b.theirs][: len(header)] for b in beside(c, facts.errors, facts.record)
    ]
    inner = table("The certificate beside other numbers", header, rows, class_="beside")
    summary = element("summary", "Beside other numbers")
    return element("details", summary, inner, open="" if compared else None)


def _findings(issued: Issued) -> Html:
    rows = [[f.name, "holds" if f.holds else "FAILS", f.detail] for f in issued.findings]
    caption = f"What pacbayes verify finds in {issued.file}"
    inner = table(caption, ["check", "result", "detail"], rows, class_="plain", hidden_caption=True)
    return element("details", element("summary", caption), inner)
