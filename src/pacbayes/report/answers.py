"""What predictors answered: doubtful examples, errors with and without abstaining, confusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificates.explanation import Beside, percent
from pacbayes.losses.bounded import loss_of, of_units
from pacbayes.report.charts import Series, line_chart
from pacbayes.report.contents import Contents
from pacbayes.report.markup import (
    Html,
    Section,
    card,
    details,
    element,
    figure,
    join,
    legend,
    png,
    scrolling_table,
    table,
)

__all__ = [
    "Answers",
    "Coverage",
    "DoubtfulExample",
    "Image",
    "confusion",
    "coverage",
    "doubtful_section",
    "errors_section",
    "guess",
    "image_of",
    "picture",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Array = NDArray[Any]
Image = tuple[int, int, int]
_SHOWN = 12  # examples
_COLUMNS = 8  # shown of an example that is not an image
_POINTS = 200  # of a curve; more would not be visible
_FRACTIONS = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5)


@dataclass(frozen=True)
class DoubtfulExample:
    """An example whose two leading classes are close.

    Attributes:
        first_share, second_share: how sure the predictor is of the two.
        features: pixels of an image.
        cells: the example as its table has it.
    """

    number: int
    label: str
    first: str
    first_share: float
    second: str
    second_share: float
    features: tuple[float, ...] = ()
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """The predictor if it answers only where its margin is at least `margin`."""

    margin: float
    answered: int
    fraction: float
    error: float


@dataclass(frozen=True)
class Answers:
    """What one predictor answered on one part of the data.

    Attributes:
        who: the predictor, as the beginning of a sentence.
        part: where the examples are from, in a word or two: test, training, bound set.
        where: the same with their number.
        confusion: number of examples for each label (rows) and answer (columns).
        classes: their names; there may be a column more, for answers that are no class.
        note: what a reader should know about these numbers.
        confidence: how it is measured how sure the predictor is; empty if it is unknown.
        curve: the error if the predictor abstains where it is not sure.
        columns: names of the cells of the doubtful examples.
        range: the least and the largest feature in the part, between which pixels are shown.
        image: channels, height and width of the image that the features form; None without one.
    """

    who: str
    part: str
    where: str
    error: float
    confusion: tuple[tuple[int, ...], ...]
    classes: tuple[str, ...]
    note: str
    confidence: str = ""
    curve: tuple[Coverage, ...] = ()
    doubtful: tuple[DoubtfulExample, ...] = ()
    columns: tuple[str, ...] = ()
    range: tuple[float, float] = (0.0, 1.0)
    image: Image | None = None

    def with_confidence(
        self, shares: Floats, labels: Indices, wrong: Floats, numbers: Indices, how: str
    ) -> Answers:
        """Return the answers with what follows from how sure the predictor is of each.

        Args:
            shares: how sure it is of every class, (n, k).
            labels, wrong: class of each example, and whether the answer is wrong.
            numbers: of the examples, as rows of their part.
            how: `confidence`.
        """
        best = np.sort(shares, 1)[:, -2:]
        margins = np.asarray(best[:, 1] - best[:, 0])
        ranking = np.argsort(-shares, 1, kind="stable")
        least = np.argsort(margins, kind="stable")[:_SHOWN]
        least = least[best[least, 0] > 0]  # the others have one answer alone
        return replace(
            self,
            confidence=how,
            curve=coverage(margins, wrong),
            doubtful=tuple(
                DoubtfulExample(
                    number=int(numbers[i]),
                    label=self.classes[labels[i]],
                    first=self.classes[first],
                    first_share=float(shares[i, first]),
                    second=self.classes[second],
                    second_share=float(shares[i, second]),
                )
                for i, (first, second) in zip(least, ranking[least, :2], strict=True)
            ),
        )


def image_of(features: Array, shape: tuple[int, ...] | None) -> Image | None:
    """Return channels, height and width of the images that rows of features are, if they are any.

    Images of a known shape have one channel or three. Otherwise, rows may be squares of at least
    8×8 pixels, none of them negative.

    Args:
        shape: of an example, if the data have one.
    """
    if shape is not None and len(shape) > 1:
        known = (1, *shape) if len(shape) == 2 else shape
        return (known[0], known[1], known[2]) if len(known) == 3 and known[0] in (1, 3) else None
    side = round(features.shape[1] ** 0.5)
    square = side >= 8 and side**2 == features.shape[1] and features.min() >= 0
    return (1, side, side) if square else None


def confusion(labels: Indices, answers: Indices, classes: int) -> tuple[tuple[int, ...], ...]:
    """Count the examples for each label (rows) and answer (columns).

    There is one column more if an answer is −1, which is no class.
    """
    counts = np.zeros((classes, classes + int((answers < 0).any())), np.int64)
    np.add.at(counts, (labels, answers), 1)
    return tuple(tuple(row) for row in counts.tolist())


def coverage(margins: Floats, wrong: Floats) -> tuple[Coverage, ...]:
    """Return the error among answered examples, from the fewest answered to all.

    Thresholds are margins that occur, so examples with equal margins are answered together.
    """
    order = np.argsort(-margins, kind="stable")
    sorted_margins, errors = margins[order], np.cumsum(wrong[order])
    last = np.flatnonzero(np.append(np.diff(sorted_margins) != 0, True))
    if len(last) > _POINTS:
        wanted = np.linspace(0, len(margins) - 1, _POINTS)
        last = last[np.unique(np.searchsorted(last, wanted))]
    return tuple(
        Coverage(
            margin=float(sorted_margins[i]),
            answered=int(i) + 1,
            fraction=(int(i) + 1) / len(margins),
            error=float(errors[i] / (i + 1)),
        )
        for i in last
    )


def guess(
    labels: Array,
    classes: Sequence[str],
    groups: Any = None,
    costs: Any = None,
    name: str = "error",
) -> Beside:
    """Return the yardstick: what a classifier loses that has learned nothing.

    Args:
        labels: indices of the classes.
        groups: label of each example's group; every group then counts the same.
        costs: of answers, if errors are not equal.
        name: of the loss without costs.
    """
    index, n = np.arange(len(classes)), len(labels)
    loss, one = loss_of(index, costs, name), loss_of(index, costs)
    alone = [float(of_units(one(np.full(n, i), labels), groups).mean()) for i in index]
    best = np.argsort(alone, kind="stable")[: loss.labels]
    always = np.tile(best, (n, 1)) if loss.labels > 1 else np.full(n, best[0])
    mean = loss.scale * float(of_units(loss(always, labels), groups).mean())
    quantity = loss.noun if groups is None else f"mean {loss.noun} within a new group"
    noun = "the largest class" if loss.labels == 1 else "the largest classes"
    noun = noun if costs is None else "the best constant answer"
    answer = ", ".join(f"'{classes[i]}'" for i in best)
    text = percent(mean) if costs is None else f"{mean:.4g}"
    return Beside(f"{quantity} of always answering {answer}, {noun}", text)


def doubtful_section(contents: Contents) -> Section | None:
    """Show the examples that a predictor is least sure of, if any knows how sure it is."""
    found = next((a for a in contents.answers if a.doubtful), None)
    if found is None:
        return None
    from_test = found.part == "test"
    missing = "" if from_test else f"There is no test set, so they are among {found.where}."
    text = f"The {found.part} examples whose two leading classes are closest, {found.confidence} "
    shown = _cells(found) if found.image is None else _images(found, found.image)
    return Section("doubtful", "Least certain examples", join(element("p", text, missing), shown))


def _images(answers: Answers, image: Image) -> Html:
    return element("ul", *(_image(d, answers, image) for d in answers.doubtful), class_="doubtful")


def _image(d: DoubtfulExample, answers: Answers, image: Image) -> Html:
    channels, height, width = image
    shown = element(
        "img",
        src=png(picture(d.features, image, answers.range)),
        width=112.0,
        height=112.0 * height / width,
        class_="colours" if channels == 3 else None,
        alt=f"{answers.part} example {d.number}: label {d.label}, vote {d.first}",
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


def _cells(answers: Answers) -> Html:
    count = len(answers.columns)
    more = f", with the first {_COLUMNS} of {count} columns" if count > _COLUMNS else ""
    header = ["example", "label", "vote", "probability", "second", "probability"]
    header += answers.columns[:_COLUMNS]
    rows = [_cells_row(d) for d in answers.doubtful]
    return card(table(f"Least certain {answers.part} examples{more}", header, rows, class_="wide"))


def _cells_row(d: DoubtfulExample) -> list[str]:
    return [
        f"{d.number}",
        d.label,
        join(d.first, " ", _verdict(d)),
        f"{100 * d.first_share:.1f} %",
        d.second,
        f"{100 * d.second_share:.1f} %",
        *d.cells[:_COLUMNS],
    ]


def errors_section(contents: Contents) -> Section | None:
    """Show which classes are taken for which, and what abstaining would save."""
    if not contents.answers:
        return None
    warning = "These are measurements, not bounds."
    body = [element("p", element("strong", warning))]
    for i, answers in enumerate(contents.answers, 1):
        text = f"{answers.who} misclassifies {100 * answers.error:.2f} % of {answers.where}. "
        body.append(element("p", text, answers.note))
        if answers.curve:
            body.append(card(_abstaining(answers, f"coverage-{i}")))
        body.append(card(_confusion(answers)))
    return Section("mistakes", "Errors", join(*body))


def _abstaining(answers: Answers, key: str) -> Html:
    curve = answers.curve
    nearest = [min(curve, key=lambda c: abs(c.fraction - wanted)) for wanted in _FRACTIONS]
    rows = [_coverage_row(c) for c in dict.fromkeys(nearest)]
    chart = line_chart(
        key,
        "Error by the fraction of examples that are answered",
        "; ".join(f"answering {row[0]}: error {row[3]}" for row in rows),
        [Series("risk", [100 * c.fraction for c in curve], [100 * c.error for c in curve])],
        x_unit=" %",
        y_unit=" %",
    )
    caption = join(
        legend(("risk", "error on answered examples")),
        "by the fraction of examples answered, if it abstains where the margin between its "
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


def _confusion(answers: Answers) -> Html:
    body = [
        _confusion_row(name, i, counts)
        for i, (name, counts) in enumerate(zip(answers.classes, answers.confusion, strict=True))
    ]
    more = ["no class"] if len(answers.confusion[0]) > len(answers.classes) else []
    caption = "Confusion matrix: number of examples by label (rows) and answer (columns)"
    header = ["label ↓ answer →", *answers.classes, *more]
    return scrolling_table(caption, header, body, class_="matrix")


def _confusion_row(name: str, label: int, counts: tuple[int, ...]) -> Html:
    cells = [element("td", f"{n}", class_=_cell(i == label, n)) for i, n in enumerate(counts)]
    return element("tr", element("th", name, scope="row"), *cells)


def _cell(right: bool, count: int) -> str:
    return "right" if right else "wrong" if count else "none"
