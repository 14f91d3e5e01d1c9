"""Where the majority vote is unsure, what it confuses, and what abstaining would buy."""

from __future__ import annotations

import numpy as np

from pacbayes.report.charts import Series, line_chart
from pacbayes.report.contents import RunFacts
from pacbayes.report.markup import Html, element, join, png, table
from pacbayes.report.page import Section, card, details, figure, legend
from pacbayes.report.votes import Coverage, Doubtful, Votes

__all__ = ["doubtful", "mistakes"]

_FEATURES = 8  # of an example that is no image
_PARTS = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5)


def doubtful(facts: RunFacts) -> Section:
    votes = facts.votes
    text = (
        f"{_origin(votes)} whose two most voted classes are closest, in votes of {votes.draws} "
        "networks drawn from Q. Shares are mean probabilities of a class."
    )
    shown = _images(votes) if votes.side is not None else _features(votes)
    return Section("doubtful", "Least sure examples", join(element("p", text), shown))


def _origin(votes: Votes) -> str:
    if votes.part == "test":
        return "Test examples"
    return "There is no test part. These are training examples"


def _images(votes: Votes) -> Html:
    items = []
    for d in votes.doubtful:
        verdict = "right" if d.first == d.label else "wrong"
        items.append(
            element(
                "li",
                element(
                    "img",
                    src=_ink(d, votes),
                    width=112.0,
                    height=112.0,
                    alt=f"{votes.part} example {d.number}: label {d.label}, vote {d.first}",
                ),
                element("p", element("strong", f"label {d.label}"), " ", _mark(verdict)),
                element("p", f"{d.first}: {100 * d.first_share:.1f} %"),
                element("p", f"{d.second}: {100 * d.second_share:.1f} %"),
            )
        )
    return element("ul", *items, class_="doubtful")


def _mark(verdict: str) -> Html:
    sign, class_ = ("✓", "holds") if verdict == "right" else ("✗", "fails")
    return element("span", f"{sign} {verdict}", class_=class_)


def _ink(d: Doubtful, votes: Votes) -> str:
    """The brightest pixels black, as ink on paper."""
    side = votes.side or 1
    grey = 255 - 255 * np.array(d.features).reshape(side, side) / (votes.brightest or 1.0)
    return png(grey.clip(0, 255).round().astype(np.uint8))


def _features(votes: Votes) -> Html:
    count = len(votes.doubtful[0].features)
    more = f", the first {_FEATURES} of {count} features" if count > _FEATURES else ""
    header = ["example", "label", "vote", "share", "next", "share"]
    header += [f"x{i + 1}" for i in range(min(count, _FEATURES))]
    rows = [
        [
            f"{d.number}",
            d.label,
            join(d.first, " ", _mark("right" if d.first == d.label else "wrong")),
            f"{100 * d.first_share:.1f} %",
            d.second,
            f"{100 * d.second_share:.1f} %",
            *(f"{v:.4g}" for v in d.features[:_FEATURES]),
        ]
        for d in votes.doubtful
    ]
    return card(table(f"Least sure {votes.part} examples{more}", header, rows, class_="wide"))


def mistakes(facts: RunFacts) -> Section:
    votes = facts.votes
    part = "the test part" if votes.part == "test" else "the training examples of the bound set"
    unseen = "" if votes.part == "test" else " Training examples flatter it: there is no test part."
    text = (
        f"The majority vote of {votes.draws} networks errs on {100 * votes.error:.2f} % of "
        f"{part}, {votes.n} examples.{unseen} "
    )
    warning = "This section is measured, not certified: no certificate covers it."
    body = join(
        element("p", text, element("strong", warning)),
        card(_curve(votes)),
        card(_confusion(votes, facts.record.data.classes)),
    )
    return Section("mistakes", "Mistakes of the vote", body)


def _curve(votes: Votes) -> Html:
    curve, rows = votes.curve, []
    for wanted in _PARTS:
        at = _nearest(curve, wanted)
        rows.append(
            [
                f"{100 * at.part:.1f} %",
                f"{at.answered}",
                f"{at.margin:.3f}",
                f"{100 * at.error:.2f} %",
            ]
        )
    series = Series("risk", [100 * c.part for c in curve], [100 * c.error for c in curve])
    chart = line_chart(
        "coverage",
        "Error of the vote against the part of examples it answers",
        "; ".join(f"answering {row[0]}: error {row[3]}" for row in rows),
        [series],
        x_unit=" %",
        y_unit=" %",
    )
    caption = join(
        legend(("risk", "error where it answers")),
        "against the part of examples answered, if the vote abstains below a margin between the "
        "shares of its first and second class.",
    )
    header = ["answered", "examples", "margin at least", "error"]
    return join(figure(caption, chart), details("Error at some margins", header, rows))


def _nearest(curve: tuple[Coverage, ...], part: float) -> Coverage:
    return min(curve, key=lambda c: abs(c.part - part))


def _confusion(votes: Votes, classes: tuple[str, ...]) -> Html:
    head = [element("th", "label ↓ vote →", scope="col")]
    head += [element("th", name, scope="col") for name in classes]
    rows = [element("thead", element("tr", *head))]
    body = []
    for i, (name, counts) in enumerate(zip(classes, votes.confusion, strict=True)):
        cells = [element("td", f"{n}", class_=_kind(i == j, n)) for j, n in enumerate(counts)]
        body.append(element("tr", element("th", name, scope="row"), *cells))
    rows.append(element("tbody", *body))
    caption = "Confusion matrix: labels in rows, votes in columns, numbers of examples"
    whole = element("table", element("caption", caption), *rows, class_="matrix")
    return element("div", whole, class_="scroll", role="region", tabindex="0", aria_label=caption)


def _kind(right: bool, count: int) -> str:
    return "right" if right else "wrong" if count else "none"
