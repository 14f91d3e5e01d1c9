"""Certificates of single classes, in one table for each predictor."""

from __future__ import annotations

from itertools import groupby

from pacbayes.bounds import confidence, percent_up
from pacbayes.certificates.explanation import percent
from pacbayes.report.contents import IssuedCertificate
from pacbayes.report.markup import Html, element, join, table

__all__ = ["classes_tables"]


def classes_tables(issued: tuple[IssuedCertificate, ...]) -> Html:
    """Return the error that is certified on each class, predictor by predictor."""
    groups = groupby(issued, key=lambda i: i.certificate.kind)
    return join(*(_article(list(group)) for _, group in groups))


def _article(issued: list[IssuedCertificate]) -> Html:
    c = issued[0].certificate
    words = (
        f"With probability {confidence(c.delta)} all of these hold together, by {c.bound_name}. "
        "The examples of each class are counted alone, and the classes share δ."
    )
    rows = [_row(i) for i in issued]
    header = ["class", "error at most", "measured", "examples", "pacbayes verify"]
    return element(
        "article",
        element("h3", f"{c.kind.title}, class by class"),
        element("p", words),
        table("The error on each class", header, rows, class_="beside", hidden_caption=True),
    )


def _row(issued: IssuedCertificate) -> list[str]:
    c = issued.certificate
    failed = [finding.name for finding in issued.findings if not finding.holds]
    verdict = f"✗ does NOT hold: {', '.join(failed)}" if failed else "✓ all checks passed"
    return [c.class_name or "", percent_up(c.bound), percent(c.risk), str(c.n), verdict]
