"""The sections on the majority vote: doubtful examples, and errors with and without abstaining."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pacbayes.report.contents import RunContents
from pacbayes.report.line_charts import Series, line_chart
from pacbayes.report.markup import Html, element, join, png, scrolling_table, table
from pacbayes.report.page import Section, card, details, figure, legend
from pacbayes.report.votes import Coverage, DoubtfulExample, Image, Votes

__all__ = ["doubtful_section", "errors_section", "picture"]

_FEATURES = 8  # shown of an example that is not an image
_FRACTIONS = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5)


def doubtful_section(contents: RunContents) -> Section:
    """Show the examples that the network is least sure of."""
    votes = contents.votes
    missing = (
        ""
        if votes.part == "test"
        else f"There is no test set, so they are among {_examples(votes)}."
    )
    text = (
        f"The {votes.part} examples whose two leading classes are closest, in a vote of "
        f"{votes.draws} networks drawn from Q. Percentages are mean probabilities of a class over "
        "the networks. "
    )
    shown = _features(votes) if votes.image is None else _images(votes, votes.image)
    return Section("doubtful", "Least certain examples", join(element("p", text, missing), shown))


def _examples(votes: Votes) -> str:
    """Return how many examples were voted on, and from where."""
    if votes.part == "test":
        return f"the {votes.n} test examples"
    if votes.n == votes.size:
        return f"the {votes.n} training examples in the bound set"
    return f"{votes.n} training examples, drawn at random from the {votes.size} in the bound set"


def _images(votes: Votes, image: Image) -> Html:
    return element("ul", *(_image(d, votes, image) for d in votes.doubtful), class_="doubtful")


def _image(d: DoubtfulExample, votes: Votes, image: Image) -> Html:
    channels, height, width = image
    shown = element(
        "img",
        src=png(picture(d.features, image, votes.range)),
        width=112.0,
        height=112.0 * height / width,
        class_="colours" if channels == 3 else None,
        alt=f"{votes.part} example {d.number}: label {d.label}, vote {d.first}",
    )
    return element(
        "li",
        shown,
        element("p", element("strong", f"label {d.label}"), " ", _verdict(d)),
        element("p", f"{d.first}: {100 * d.first_share:.1f} %"),
        element("p", f"{d.second}: {100 * d.second_share:.1f} %"),
    )


def _verdict(d: DoubtfulExample) -> Html:
    if d.first == d.label:
        return element("span", "✓ right", class_="holds")
    return element("span", "✗ wrong", class_="fails")


def picture(
    features: Sequence[float], image: Image, between: tuple[float, float]
) -> NDArray[np.uint8]:
    """Return the pixels of an image, (rows, columns), or (rows, columns, 3) in colours.

    Grey images have their brightest pixels black, like ink on paper.

    Args:
        between: features that are shown as the darkest and the brightest pixels.
    """
    low, high = between
    bright = 255 * (np.array(features).reshape(image) - low) / ((high - low) or 1.0)
    pixels = 255 - bright[0] if image[0] == 1 else np.moveaxis(bright, 0, -1)
    return np.asarray(pixels.clip(0, 255).round(), np.uint8)


def _features(votes: Votes) -> Html:
    count = len(votes.doubtful[0].features)
    more = f", with the first {_FEATURES} of {count} features" if count > _FEATURES else ""
    header = ["example", "label", "vote", "probability", "second", "probability"]
    header += [f"x{i + 1}" for i in range(min(count, _FEATURES))]
    rows = [_features_row(d) for d in votes.doubtful]
    return card(table(f"Least certain {votes.part} examples{more}", header, rows, class_="wide"))


def _features_row(d: DoubtfulExample) -> list[str]:
    return [
        f"{d.number}",
        d.label,
        join(d.first, " ", _verdict(d)),
        f"{100 * d.first_share:.1f} %",
        d.second,
        f"{100 * d.second_share:.1f} %",
        *(f"{v:.4g}" for v in d.features[:_FEATURES]),
    ]


def errors_section(contents: RunContents) -> Section:
    """Show the examples that the majority vote misclassifies."""
    votes = contents.votes
    text = (
        f"The majority vote of {votes.draws} networks misclassifies {100 * votes.error:.2f} % of "
        f"{_examples(votes)}. "
    )
    if votes.part == "training":
        text += "There is no test set; the error on training examples is optimistic. "
    warning = "This section contains measurements. No certificate covers them."
    body = join(
        element("p", text, element("strong", warning)),
        card(_abstaining(votes)),
        card(_confusion(votes, contents.record.data.classes)),
    )
    return Section("mistakes", "Errors of the majority vote", body)


def _abstaining(votes: Votes) -> Html:
    curve = votes.curve
    rows = [_coverage_row(_nearest(curve, wanted)) for wanted in _FRACTIONS]
    chart = line_chart(
        "coverage",
        "Error of the vote by the fraction of examples that it answers",
        "; ".join(f"answering {row[0]}: error {row[3]}" for row in rows),
        [Series("risk", [100 * c.fraction for c in curve], [100 * c.error for c in curve])],
        x_unit=" %",
        y_unit=" %",
    )
    caption = join(
        legend(("risk", "error on answered examples")),
        "by the fraction of examples answered, if the vote abstains where the margin between its "
        "two leading classes is small.",
    )
    header = ["answered", "examples", "margin at least", "error"]
    return join(figure(caption, chart), details("Error at selected margins", header, rows))


def _coverage_row(c: Coverage) -> list[str]:
    return [
        f"{100 * c.fraction:.1f} %",
        f"{c.answered}",
        f"{c.margin:.3f}",
        f"{100 * c.error:.2f} %",
    ]


def _nearest(curve: tuple[Coverage, ...], fraction: float) -> Coverage:
    return min(curve, key=lambda c: abs(c.fraction - fraction))


def _confusion(votes: Votes, classes: tuple[str, ...]) -> Html:
    body = [
        _confusion_row(name, i, counts)
        for i, (name, counts) in enumerate(zip(classes, votes.confusion, strict=True))
    ]
    caption = "Confusion matrix: number of examples by label (rows) and vote (columns)"
    return scrolling_table(caption, ["label ↓ vote →", *classes], body, class_="matrix")


def _confusion_row(name: str, label: int, counts: tuple[int, ...]) -> Html:
    cells = [element("td", f"{n}", class_=_cell(vote == label, n)) for vote, n in enumerate(counts)]
    return element("tr", element("th", name, scope="row"), *cells)


def _cell(right: bool, count: int) -> str:
    return "right" if right else "wrong" if count else "none"
