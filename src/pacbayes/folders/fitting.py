"""Fit and save a classifier of a file or a named data set, as the command line does."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacbayes.certificates.certificate import Certificate
from pacbayes.choices import Model
from pacbayes.data import NAMES, DataError, DataSource
from pacbayes.data.layout import Layout, table_of
from pacbayes.data.reading import is_table, read_frame
from pacbayes.extras import require
from pacbayes.files import check_replaceable, save_json
from pacbayes.folders.models import other_certificates, save_classifier
from pacbayes.folders.record import FOLDER_FILES
from pacbayes.models.candidates import default_candidates
from pacbayes.models.classifier import CertifiedClassifier

__all__ = ["Examples", "FittedModel", "candidates_of", "costs_of", "read_examples", "train_model"]

Array = NDArray[Any]
_CANDIDATES = {
    "boosting": "gradient boosting",
    "forest": "random forest",
    "linear": "logistic regression",
}


@dataclass(frozen=True)
class Examples:
    """Features and labels of a table, and of a test table if there is one.

    Attributes:
        layout: the columns, so that later files are read alike.
        groups: label of each example's group.
    """

    x: Array
    y: Array
    layout: Layout | None
    test: tuple[Any, Array] | None = None
    groups: Array | None = None


@dataclass(frozen=True)
class FittedModel:
    """A classifier that was fitted and saved.

    Attributes:
        remarks: warnings of fitting.
        test_error, test_size: on the test examples, if there are any.
        others: certificates of single classes, answered examples and unanswered ones.
    """

    model: CertifiedClassifier
    remarks: tuple[str, ...]
    test_error: float | None
    test_size: int
    others: list[Certificate]


def candidates_of(model: Model, seed: int) -> dict[str, Any] | None:
    """Return the candidates of a model by name; None for the default ones."""
    if model == "best":
        return None
    return {(name := _CANDIDATES[model]): default_candidates(seed)[name]}


def read_examples(
    dataset: str,
    *,
    label: str | None = None,
    test: Path | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    group: str | None = None,
) -> Examples:
    """Read a CSV, Parquet or .npz file, or a named data set, with numbers in float64."""
    if not is_table(dataset):
        named = None if test is None else str(test)
        source = DataSource(dataset, test=named, label=label, drop=tuple(drop))
        source = replace(source, categorical=tuple(categorical), group=group)
        source.check()
        data = source.load()
        names = np.array(data.classes)
        there = data.x_test.astype(np.float64), names[data.y_test]
        x, y = data.x_train.astype(np.float64), names[data.y_train]
        return Examples(x, y, None, there if len(there[1]) else None)
    frame = read_frame(
        dataset, label=label, drop=drop, categorical=categorical, group=group, dtype=np.float64
    )
    assert frame.label is not None
    layout = Layout.of_file(frame, tuple(drop) if group is None else (*drop, group))
    y, groups = frame.label.texts(), None if frame.group is None else frame.group.texts()
    examples = Examples(table_of(frame), y, layout, groups=groups)
    if test is None:
        return examples
    x, labels = layout.read(test)
    if labels is None:
        raise DataError(f"{test}: no column {layout.label!r}, which has the labels")
    return replace(examples, test=(x, np.array(labels)))


def train_model(
    out: Path,
    model: Model,
    examples: Examples,
    source: str,
    *,
    seed: int = 0,
    **given: Any,
) -> FittedModel:
    """Fit a classifier, certify it, and save it in a folder with its test error.

    Args:
        model: boosting, forest, linear, or the best of them and a neural network.
        source: the file or data set that the examples came from.
        given: other parameters of `CertifiedClassifier`.
    """
    check_folder(out)
    classifier = CertifiedClassifier(
        candidates=candidates_of(model, seed), random_state=seed, **given
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(examples.x, examples.y, examples.groups)
    if examples.layout is not None:
        classifier.evidence_ = replace(classifier.evidence_, layout=examples.layout)
    place = source if source in NAMES else os.path.relpath(source, out)
    save_classifier(classifier, out, source=place)
    error, size = None, 0
    if examples.test is not None:
        x, y = examples.test
        wrong = (classifier.top(x) != y[:, None]).all(axis=1)
        error, size = float(wrong.mean()), len(y)
        save_json(out / "test.json", {"error": error, "n": size})
    remarks = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return FittedModel(classifier, remarks, error, size, other_certificates(classifier))


def costs_of(given: Collection[str], labels: Array) -> Array | None:
    """Return the costs of errors from texts such as `ill=10`; an error on other classes costs 1.

    Returns:
        (k, k), the cost of answering the class in column j to an example of the class in row i;
        None if nothing is given.
    """
    if not given:
        return None
    classes = [str(label) for label in np.unique(labels)]
    costs = dict.fromkeys(classes, 1.0)
    for text in given:
        name, _, number = text.rpartition("=")
        if name not in costs:
            raise ValueError(
                f"--cost {text}: give one of {', '.join(classes)}, as in {classes[0]}=10"
            )
        try:
            costs[name] = float(number)
        except ValueError:
            raise ValueError(f"--cost {text}: {number!r} is not a number") from None
    return np.array([[costs[a] * (a != b) for b in classes] for a in classes])


def check_folder(out: Path) -> None:
    """Raise ValueError, before anything is fitted, if the result could not be saved."""
    require("models", "--model")
    check_replaceable(out, FOLDER_FILES)
