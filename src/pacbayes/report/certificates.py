"""The sections on certificates, candidates and columns, and on how to check all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from pacbayes.bounds import confidence
from pacbayes.certificates.explanation import Step, sentence
from pacbayes.report.charts import Part, bars, stacked
from pacbayes.report.contents import Claims, Commands, Contents, Shown, Table, Unit
from pacbayes.report.markup import (
    Html,
    Section,
    card,
    command_block,
    details,
    element,
    figure,
    join,
    legend,
    swatch,
    table,
)
from pacbayes.verify import Finding

__all__ = [
    "candidates_section",
    "certificates_section",
    "columns_section",
    "pieces",
    "provenance_section",
]

_PALEST = 0.5
_CAPTION = "How the bound adds up. The dashed line marks the bound."
_HELD_OUT = (
    " The held-out bound is the bound that the same error would give on n examples that were not "
    "used for training."
)
_SEVERAL = (
    "Each certificate holds with its own probability; the probability that all of them hold at "
    "once is lower. Each one names the predictor that it covers. The first is the lowest; pacbayes "
    "predict answers with its predictor."
)
_PATHS = "Paths are seen from the directory in which this page was written."


def certificates_section(contents: Contents) -> Section:
    """Write the certificates and how their bounds add up."""
    found = contents.certificates
    if not found and not contents.claims:
        return Section("certificate", "Certificate", _none(contents))
    articles = [_article(c, contents.unchecked) for c in found]
    articles += map(_claimed, contents.claims)
    if len(found) > 1:
        articles.insert(0, element("p", _SEVERAL, class_="note"))
    title = "Certificate" if len(articles) == 1 else "Certificates"
    return Section("certificate", title, join(*articles))


def _none(contents: Contents) -> Html:
    said = contents.uncertified
    words = (element("p", said.title), element("p", said.note) if said.note else Html())
    return card(*words, *map(command_block, said.lines))


def _article(c: Shown, unchecked: str) -> Html:
    return element(
        "article",
        element("h3", c.title),
        element(
            "p",
            element("small", "at most "),
            c.certificate.shown,
            element("small", f" {c.certificate.quantity}"),
            class_="claim",
        ),
        _vacuous(c) if c.certificate.vacuous else Html(),
        *(element("p", remark, class_="fails") for remark in c.certificate.remarks),
        _verdict(c, unchecked),
        element("p", sentence(c.certificate)),
        _chart(c),
        _parts_table(c),
        _comparison(c),
        element("h4", "Assumptions that no file can prove"),
        element("ul", *(element("li", sentence) for sentence in c.certificate.assumptions)),
        _checks(c),
    )


def _vacuous(c: Shown) -> Html:
    text = f"Vacuous: this bound says nothing about the {c.certificate.quantity}."
    return element("p", text, class_="fails")


def _verdict(c: Shown, unchecked: str) -> Html:
    sign, text, class_ = _result_of(c.findings)
    measured = any(finding.measures_risk for finding in c.findings)
    note = "" if measured or class_ == "fails" else f"; without --full, {unchecked}"
    return element("p", f"{sign} pacbayes verify: {text}{note}.", class_=f"verdict {class_}")


def _result_of(findings: Iterable[Finding]) -> tuple[str, str, str]:
    """Return the result of all checks: its sign, a few words, and the class of its colour."""
    checks = [finding for finding in findings if not finding.word]
    if failed := [finding.name for finding in checks if not finding.holds]:
        return "✗", f"this certificate does NOT hold. Failed: {', '.join(failed)}", "fails"
    return "✓", f"all {len(checks)} checks passed", "holds"


def _shades(found: list[Step]) -> list[float]:
    """Return the shade of each step.

    What was learned comes last, in one colour, each step paler than the one before.
    """
    learned = len(_learned(found))
    faded = [1 - (1 - _PALEST) * i / max(1, learned - 1) for i in range(learned)]
    return [1.0 if s.kind != "kl" else faded.pop(0) for s in found]


def pieces(c: Shown) -> list[Part]:
    """Return the pieces of a bar whose length is the bound.

    A vacuous bound is smaller than the sum of its parts, so the last pieces are cut off.
    """
    found = _without_negative_steps(list(c.steps))
    parts, left = [], c.certificate.bound
    for s, shade in zip(found, _shades(found), strict=True):
        length = min(left, max(0.0, s.points))
        left -= length
        title = (
            f"{s.label}: {c.unit.times * s.points:.3f}{' percentage points' if c.unit.sign else ''}"
        )
        parts.append(Part(s.kind, c.unit.times * length, title, shade))
    return parts


def _without_negative_steps(found: list[Step]) -> list[Step]:
    """Merge the layers into one step if the contribution of any layer is negative.

    This happens for a drawn network: the weights of a layer may be more likely under the prior than
    under the posterior, and a piece of a bar cannot have a negative length.
    """
    points = [s.points for s in _learned(found)]
    if min(points, default=0) >= 0:
        return found
    whole = Step("kl", "learned in all layers", sum(points))
    return [*(s for s in found if s.kind != "kl"), whole]


def _learned(found: list[Step]) -> list[Step]:
    return [s for s in found if s.kind == "kl"]


def _chart(c: Shown) -> Html:
    parts = pieces(c)
    desc = "; ".join([*(p.title for p in parts), *(m.text for m in c.marks)])
    caption = _CAPTION + (_HELD_OUT if any("held-out" in m.text for m in c.marks) else "")
    chart = stacked(f"bar-{c.key}", "How the bound adds up", desc, parts, c.marks, c.unit.sign)
    return figure(caption, chart)


def _parts_table(c: Shown) -> Html:
    found = list(c.steps)
    rows: list[list[str]] = [
        [
            join(swatch(s.kind, shade), s.label, _small(s.detail)),
            f"{c.unit.times * s.points:.3f}" if c.unit.sign else f"{s.points:.4g}",
        ]
        for s, shade in zip(found, _shades(found), strict=True)
    ]
    rows.append([element("strong", "bound, rounded up"), element("strong", c.certificate.shown)])
    header = ["part of the bound", "percentage points" if c.unit.sign else c.certificate.quantity]
    return table("The parts of the bound", header, rows, class_="sum", hidden_caption=True)


def _small(detail: str) -> Html:
    return join(" ", element("small", detail)) if detail else Html()


def _comparison(c: Shown) -> Html:
    header = ["quantity", "this run", *([] if c.paper is None else [c.paper])]
    rows = [[b.label, b.ours, b.theirs][: len(header)] for b in c.beside]
    caption = "The certificate compared with other numbers"
    inner = table(caption, header, rows, class_="beside", hidden_caption=True)
    return element("details", element("summary", caption), inner, open="")


def _checks(c: Shown) -> Html:
    """Return all findings; what is listed among the assumptions is not repeated."""
    listed: Collection[str] = set(c.certificate.assumptions)
    rows = [[f.name, _result(f), f.detail] for f in c.findings if f.detail not in listed]
    caption = f"Checks of {c.file} by pacbayes verify"
    return details(caption, ["check", "result", "detail"], rows, class_="plain")


def _result(finding: Finding) -> str:
    if finding.word:
        return "assumed"
    return "passed" if finding.holds else "FAILED"


def _claimed(claims: Claims) -> Html:
    """Return certificates that share δ, with their checks."""
    rows = []
    for c, findings in claims.certificates:
        measured = Unit.of(c.scale).text(c.risk) if c.n else "–"
        sign, text, class_ = _result_of(findings)
        checks = element("span", f"{sign} {text}", class_=class_)
        about = f"{c.quantity}, by {c.theorem}"
        rows.append([about, c.shown, measured, f"{c.n}", checks])
    delta = claims.certificates[0][0].delta
    hold = f"With probability {confidence(delta)} all of these hold together{claims.note}"
    header = ["about", "at most", "measured", "counted", "pacbayes verify"]
    shown = table(claims.title, header, rows, class_="claims beside", hidden_caption=True)
    return element("article", element("h3", claims.title), element("p", hold), shown)


def _table(t: Table, *, hidden_caption: bool = False) -> Html:
    return table(t.caption, t.header, t.rows, class_=t.class_, hidden_caption=hidden_caption)


def candidates_section(contents: Contents) -> Section | None:
    """Show the candidates side by side, or None if nothing was chosen."""
    found = contents.candidates
    if found is None:
        return None
    desc = "; ".join(m.text for m in found.marks)
    bounded = [("sample", "bound")] if any(m.reach for m in found.marks) else []
    names = legend(("risk", "measured on the bound set"), *bounded)
    chart = bars("candidates-chart", found.caption, desc, found.marks, found.unit.sign)
    note = element("p", found.note, class_="note")
    body = card(figure(names, chart), _table(found, hidden_caption=True), note)
    return Section("candidates", "Candidates", body)


def columns_section(contents: Contents) -> Section | None:
    """Show the columns and what became of them, or None if they are not known."""
    found = contents.columns
    if found is None:
        return None
    body = card(element("p", found.note, class_="note"), _table(found))
    return Section("features", "Columns and features", body)


def provenance_section(contents: Contents) -> Section:
    """Write how to check, repeat and use what the page is about."""
    commands = [_commands(c) for c in (contents.again, *_usual(contents)) if c is not None]
    settings = [(name, _text(value)) for name, value in contents.settings.items()]
    body = join(
        card(*commands, element("p", _PATHS, class_="note")),
        *(card(_ledger(c)) for c in contents.certificates),
        card(_hashes(contents)),
        card(_versions(contents)),
        card(details("All settings", ["setting", "value"], settings, class_="plain")),
    )
    return Section("provenance", "How to check it", body)


def _usual(contents: Contents) -> Iterator[Commands]:
    place = contents.place
    if contents.certificates or contents.claims:
        lines = (f"pacbayes verify {place}", f"pacbayes verify {place} --full")
        yield Commands("Verify", lines, f"Without --full, {contents.unchecked}.")
    yield Commands("Use", (f"pacbayes predict {place} {contents.new}",))


def _commands(commands: Commands) -> Html:
    note = element("p", commands.note, class_="note") if commands.note else Html()
    return join(element("h3", commands.title), *map(command_block, commands.lines), note)


def _ledger(c: Shown) -> Html:
    """Return how the failure probability of a certificate is divided."""
    ledger, delta = c.certificate.ledger, c.certificate.delta
    rows = [(k, f"{part:.6g}", f"{100 * part / delta:.1f} %") for k, part in ledger.items()]
    rows.append(("total", f"{sum(ledger.values()):.6g}", f"of δ = {delta:g}"))
    caption = f"δ ledger of {c.file}: how its failure probability is divided"
    return table(caption, ("part", "δ", "share"), rows, class_="beside")


def _hashes(contents: Contents) -> Html:
    rows = [(name, element("code", value)) for name, value in contents.hashes.items()]
    return table("SHA-256 hashes", ("object", "hash"), rows, class_="plain")


def _versions(contents: Contents) -> Html:
    """Return the version of every component, by what was made with it."""
    found = contents.versions.values()
    components = dict.fromkeys(chain(*found))
    rows = [(name, *(str(v.get(name, "–")) for v in found)) for name in components]
    caption = "Software and hardware; results are bit-identical only where these agree"
    return table(caption, ("component", *contents.versions), rows, class_="wide")


def _text(value: Any) -> str:
    """Return the value of a setting, as plain data, in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        if any(isinstance(inner, list | tuple) for inner in value):
            return "; ".join(map(_text, value))
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "–" if value is None else str(value)
