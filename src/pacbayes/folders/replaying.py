"""Run what a folder holds for `verify`, which runs no code of the issuer itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from pacbayes.data import NAMES
from pacbayes.data import load as load_data
from pacbayes.data.layout import Layout
from pacbayes.data.sample import NoSampleError, check_examples, first_of_each
from pacbayes.data.splitting import Split
from pacbayes.data.values import features_sha256
from pacbayes.folders.models import load_classifier
from pacbayes.folders.record import EVIDENCE, RUN, ClassifierRecord, read_record
from pacbayes.folders.storing import load_copy
from pacbayes.losses.bounded import loss_of
from pacbayes.models.asking import check_answers
from pacbayes.models.candidates import ranked
from pacbayes.models.claims import places
from pacbayes.verify.classifiers import recount
from pacbayes.verify.findings import REPLAYED, Finding, word
from pacbayes.verify.records import ClassifierCertificates, ClassifierRun, read, read_tensors

__all__ = ["features_of", "replay"]

Array = NDArray[Any]


def replay(path: Path, data: Path | None = None, trusted: Sequence[str] = ()) -> Iterator[Finding]:
    """Predict the bound set of a certificate again; `verify` calls this if its own checks hold.

    The models are loaded as plain data of trusted types.

    Args:
        data: file with the examples, if they are neither in the folder nor where they were.
        trusted: types of your own that loading may execute.
    """
    folder, record = path.parent, read_record(path.parent)
    X, labels = features_of(folder, record, data)
    evidence = read_tensors(folder / EVIDENCE)
    same = features_sha256(X) == record.x_sha256
    detail = record.x_sha256 if same else "these are not the features that the models were given"
    yield Finding("hash of the features", same, detail)
    if not same:
        return
    if labels is None:
        said = "the labels are those of the examples; --data compares them with a file"
        yield word(said)
    else:
        equal = [record.classes[i] for i in evidence["labels"]] == labels
        yield Finding("labels", equal, f"{len(labels)} compared with the data")
    if record.grouped:
        yield word("the groups are those of the examples")
    yield _sample(X, evidence, record)
    model = load_classifier(folder, trusted)
    there = _safe_indexing(X, evidence["rows"])
    k = loss_of(model.classes_, record.costs, record.loss).labels
    predicted = {n: ranked(m, there, model.classes_, k) for n, m in model.candidates_.items()}
    found = [places(labels, model.classes_) for labels in predicted.values()]
    again = {"predictions": np.stack(found)}
    again |= {"answers": model.answers(there)} if "answers" in evidence else {}
    changed = {name: int((array != evidence[name]).sum()) for name, array in again.items()}
    total = sum(array.size for array in again.values())
    detail = f"{sum(changed.values())} of {total} differ"
    if any(changed.values()):  # as on another machine; their losses decide
        detail += ", so losses are counted again"
    yield Finding(REPLAYED, True, detail)
    yield _steady(model, there, predicted, again.get("answers"))
    if any(changed.values()):
        run, issued = read(folder / RUN, ClassifierRun), read(path, ClassifierCertificates)
        yield from recount(run, issued, evidence | again)


def _steady(
    model: Any, there: Any, predicted: Mapping[str, Array], answers: Array | None
) -> Finding:
    """Check that the classifier gives its answers again, in other batches too."""
    try:
        check_answers(model, there, predicted, answers)
    except NoSampleError as error:
        return Finding("answers", False, str(error))
    return Finding("answers", True, "the same when asked again, alone and in other batches")


def _sample(X: Any, e: Mapping[str, Array], record: ClassifierRecord) -> Finding:
    labels, repeats = e["labels"], record.repeats
    kept = e.get("kept", np.arange(len(labels)))
    split = Split(np.setdiff1d(kept, e["rows"]), e["rows"], record.seed)
    try:
        check_examples(
            X, labels, e.get("groups"), split, repeats=repeats, deduplicated=record.deduplicated
        )
    except NoSampleError as error:
        return Finding("examples", False, str(error))
    if record.deduplicated and not np.array_equal(kept, first_of_each(X, labels)):
        return Finding("examples", False, "the examples that were kept are not the first of each")
    return Finding("examples", True, "nothing speaks against independence")


def features_of(
    folder: Path, record: ClassifierRecord, data: Path | None = None
) -> tuple[Any, list[str] | None]:
    """Return the features that a classifier was fitted to, and the labels if they come with them.

    They are read from `data`, or from the copy in the folder, or from where they were.
    """
    if data is not None:
        return _from(str(data), record.layout)
    copy = load_copy(folder, record.layout)
    if copy is not None:
        return copy, None
    if record.source is None:
        raise ValueError(
            f"{folder} has no copy of the data; give them with --data, or save the classifier with "
            "save(folder, X)"
        )
    named = record.source in NAMES
    return _from(record.source if named else str(folder / record.source), record.layout)


def _from(source: str, layout: Layout | None) -> tuple[Any, list[str] | None]:
    if source in NAMES or source.endswith(".npz"):
        found = load_data(source)
        return found.x_train.astype(np.float64), [found.classes[i] for i in found.y_train]
    if layout is None:
        raise ValueError("the classifier was not fitted to a table; save it with save(folder, X)")
    return layout.read(Path(source))
