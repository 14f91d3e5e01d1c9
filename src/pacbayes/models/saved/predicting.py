"""Predict the rows of a file with a saved classifier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacbayes.data import NAMES, DataError
from pacbayes.data import load as load_data
from pacbayes.models.saved.folder import load_classifier
from pacbayes.models.saved.record import ClassifierRecord, read_record

__all__ = ["FilePrediction", "predict_file"]


@dataclass(frozen=True)
class FilePrediction:
    """Predicted labels, the predictor in words, and its error if labels were given.

    Attributes:
        answered: whether each label is meant as an answer, if the classifier may abstain.
        error: among answered rows.
    """

    predictor: str
    labels: list[str]
    answered: list[bool] | None
    error: float | None


def predict_file(folder: Path, data: str, label: str | None = None) -> FilePrediction:
    """Predict labels for a CSV or Parquet file, or for the test part of a named data set.

    Columns are matched by name where the classifier knows names.
    """
    record = read_record(folder)
    model = load_classifier(folder)
    x, found = _examples(folder, record, data, label)
    if found is not None and (unknown := set(found) - set(record.classes)):
        classes = ", ".join(record.classes)
        raise DataError(f"{data}: label {min(unknown)!r} is not among {classes}")
    labels = [str(answer) for answer in model.predict(x)]
    answered = None if model.target_error is None else [bool(a) for a in model.answers(x)]
    said = model.certificate_.predictor if model.certificate_ else model.chosen_
    return FilePrediction(said, labels, answered, _error(labels, found, answered))


def _examples(
    folder: Path, record: ClassifierRecord, data: str, label: str | None
) -> tuple[Any, list[str] | None]:
    if data in NAMES:
        source = load_data(data)
        return source.x_test.astype(np.float64), [source.classes[i] for i in source.y_test]
    if record.layout is None:
        raise DataError(
            f"{folder} was not fitted to a table; use pacbayes.load({str(folder)!r}).predict(…)"
        )
    return record.layout.read(Path(data), label)


def _error(labels: list[str], found: list[str] | None, answered: list[bool] | None) -> float | None:
    if found is None:
        return None
    counted = [a != b for i, (a, b) in enumerate(zip(labels, found, strict=True))
               if answered is None or answered[i]]  # fmt: skip
    return sum(counted) / len(counted) if counted else None
