"""A certified classifier on disk: plain numbers for `verify`, and models that run no code.

run.json              what was fitted, how δ was shared, hashes of the other files, versions
certificate.json      all certificates; missing if they were withheld
evidence.safetensors  the split, labels, groups, and every candidate's predictions on the bound set
models.skops          the fitted candidates, as plain data
data.npz, .parquet    the features, if they were given to `save`"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pacbayes.bounds.domain import check_probability
from pacbayes.certificates.certificate import Certificate, read_classifier
from pacbayes.certificates.explanation import remarked
from pacbayes.data import NAMES, DataError
from pacbayes.data import load as load_data
from pacbayes.data.splitting import Split
from pacbayes.files import (
    CLASSIFIER,
    DamagedFileError,
    file_sha256,
    load_tensors,
    load_versioned,
    new_folder,
    save_json,
    save_tensors,
    write_atomically,
)
from pacbayes.folders.prediction import Prediction, checked, error_of
from pacbayes.folders.record import (
    CERTIFICATE,
    EVIDENCE,
    FOLDER_FILES,
    MODELS,
    RUN,
    ClassifierRecord,
    read_record,
    versions,
)
from pacbayes.folders.storing import as_bytes, check_same, from_bytes, table_bytes, unknown_types
from pacbayes.losses.bounded import loss_of
from pacbayes.models.candidates import MEAN, WeightedVote, mean_of, vote_of
from pacbayes.models.claims import (
    ANSWERED,
    OVERALL,
    UNANSWERED,
    VOTES,
    BoundSet,
    Evidence,
    class_claim,
    part_of,
    share_out,
)
from pacbayes.sklearn.classifier import PACBayesClassifier
from pacbayes.sklearn.packing import packed, unpacked
from pacbayes.verify.classifiers import check_evidence

if TYPE_CHECKING:
    from pacbayes.models.classifier import CertifiedClassifier

__all__ = [
    "SavedModel",
    "as_plain",
    "from_plain",
    "issue",
    "issue_again",
    "load_classifier",
    "open_model",
    "other_certificates",
    "predict_file",
    "save_classifier",
]

Array = NDArray[Any]
_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "threshold_", "classes_")
_MODULES = {"scikit-learn": "sklearn", "numpy": "numpy", "scipy": "scipy", "skops": "skops"}


def save_classifier(
    model: CertifiedClassifier, folder: Path, X: Any = None, *, source: str | None = None
) -> None:
    """Write a fitted classifier to a folder, all of it or nothing.

    Args:
        X: the features that it was fitted to, to be stored too.
        source: the file or data set that they came from.
    """
    check_is_fitted(model)
    content = as_bytes(_state(model))
    if unknown := unknown_types(content):
        warnings.warn(
            f"{', '.join(unknown)} is not among the types that load trusts; load the classifier "
            f"with pacbayes.load(folder, trusted={unknown!r})",
            UserWarning,
            stacklevel=3,
        )
    copies = {}
    if X is not None:
        check_same(X, model.evidence_.x_sha256)
        copies = table_bytes(X, model.evidence_.layout)
    with new_folder(folder, FOLDER_FILES) as building:
        for name, data in ({MODELS: content} | copies).items():
            write_atomically(building / name, data)
        tensors = {k: torch.from_numpy(v.copy()) for k, v in model.evidence_.tensors().items()}
        save_tensors(building / EVIDENCE, tensors)
        files = {path.name: file_sha256(path) for path in sorted(building.iterdir())}
        usual = {"loss"} if model.loss == "error" else set()  # earlier versions know no other
        record = _record(model, files, source).model_dump(mode="json", exclude=usual)
        save_json(building / RUN, record)
        if model.certificate_ is not None:
            issue(
                building,
                model.certificate_.part,
                [*model.certificates_.values(), *other_certificates(model)],
            )


def issue(folder: Path, chosen: str, certificates: Sequence[Certificate]) -> None:
    """Write certificate.json, which names the run.json it belongs to."""
    record = {
        "kind": CLASSIFIER,
        "format": 1,
        "run_sha256": file_sha256(folder / RUN),
        "chosen": chosen,
        "certificates": {c.part: c.as_dict() for c in certificates},
    }
    save_json(folder / CERTIFICATE, record)


def _state(model: CertifiedClassifier) -> dict[str, Any]:
    return {
        "parameters": model.get_params(deep=False),
        "candidates": {k: as_plain(v) for k, v in model.candidates_.items() if k != MEAN},
        "attributes": {k: getattr(model, k) for k in _ATTRIBUTES if hasattr(model, k)},
    }


def _record(
    model: CertifiedClassifier, files: dict[str, str], source: str | None
) -> ClassifierRecord:
    e = model.evidence_
    costs = None if model.costs is None else tuple(tuple(map(float, row)) for row in model.costs)
    return ClassifierRecord(
        classes=tuple(map(str, model.classes_)),
        n=len(e.labels),
        seed=e.seed,
        fraction=e.fraction,
        grouped=e.groups is not None,
        choose=model.choose,
        chosen=model.chosen_,
        shares=e.shares,
        claims=e.claims,
        costs=costs,
        loss=model.loss,
        repeats=model.repeats,
        deduplicated=e.kept is not None,
        mean=e.mean,
        x_sha256=e.x_sha256,
        layout=e.layout,
        source=source,
        files=files,
        versions=versions() | _libraries(),
    )


def _libraries() -> dict[str, str]:
    """Return the versions of the libraries that the models need, as they are loaded."""
    return {name: import_module(module).__version__ for name, module in _MODULES.items()}


def other_certificates(model: CertifiedClassifier) -> list[Certificate]:
    """Return the certificates of single classes, answered examples and unanswered ones."""
    found = [*(getattr(model, "class_certificates_", None) or {}).values()]
    rest = (getattr(model, f"{name}_certificate_", None) for name in (ANSWERED, UNANSWERED))
    return found + [certificate for certificate in rest if certificate is not None]


def load_classifier(folder: Path, trusted: Sequence[str] = ()) -> CertifiedClassifier:
    """Return the classifier that a folder holds, with the same predictions and certificates.

    Args:
        trusted: types of your own in its candidates, by name; loading them may execute their code.
    """
    from pacbayes.models.classifier import CertifiedClassifier

    record = read_record(folder)
    for name, sha256 in record.files.items():
        _check_file(folder / name, sha256)
    state = from_bytes((folder / MODELS).read_bytes(), trusted, str(folder / MODELS))
    try:
        model = CertifiedClassifier(**state["parameters"])
        _check_models(state, record)
        for name, value in state["attributes"].items():
            setattr(model, name, value)
        fitted = {k: from_plain(state["candidates"][k]) for k in record.shares if k != MEAN}
        _restore(model, record, fitted, folder)
    except (TypeError, KeyError, AttributeError) as error:
        raise DamagedFileError(f"{folder / MODELS} is damaged: {error!r}") from error
    return model


def _check_models(state: dict[str, Any], record: ClassifierRecord) -> None:
    """Raise KeyError unless models are by name, and classes by place, those of the record."""
    if not set(state["attributes"]) <= set(_ATTRIBUTES):
        raise KeyError("attributes that are not a classifier's")
    if tuple(map(str, state["attributes"]["classes_"])) != record.classes:
        raise KeyError(f"classes other than those of {RUN}, or in another order")
    if set(state["candidates"]) != set(record.shares) - {MEAN}:
        raise KeyError(f"candidates other than those of {RUN}")


def _check_file(path: Path, sha256: str) -> None:
    if not path.is_file():
        raise DamagedFileError(f"{path} is missing; restore it from a copy")
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise DamagedFileError(f"{path} is damaged: its hash is not the one in {RUN}")


def _restore(
    model: CertifiedClassifier, record: ClassifierRecord, fitted: dict[str, Any], folder: Path
) -> None:
    """Set what `fit` sets, from the models, the evidence and the certificates."""
    if MEAN in record.shares:
        fitted = fitted | {MEAN: mean_of(fitted, model.classes_, record.mean)}
    fitted = {name: fitted[name] for name in record.shares}  # in the order of the evidence
    model.candidates_, model.chosen_ = fitted, record.chosen
    model.evidence_ = evidence = read_evidence(folder, record)
    model.bound_set_ = evidence.rows
    if evidence.weights is None:
        model.estimator_ = fitted[record.chosen]
    else:
        model.weights_ = dict(zip(fitted, evidence.weights.tolist(), strict=True))
        members = list(fitted.values())
        model.estimator_ = WeightedVote(members, evidence.weights, model.classes_)
    part, issued = read_certificates(folder, record, evidence) or (None, {})
    model.certificate_ = None if part is None else issued[part]
    names = VOTES if record.choose == "vote" else tuple(record.shares)
    several = len(record.claims) > 1
    parts = {name: part_of(name, OVERALL, several=several) for name in names}
    model.certificates_ = {name: issued[part] for name, part in parts.items() if part in issued}
    if model.per_class:
        of = {
            label: part_of(record.chosen, class_claim(label), several=several)
            for label in model.classes_
        }
        found = {k: issued[p] for k, p in of.items()} if issued else None
        setattr(model, "class_certificates_", found)  # noqa: B010
    if model.target_error is not None:
        for name in (ANSWERED, UNANSWERED):
            spent = part_of(record.chosen, name, several=several)
            setattr(model, f"{name}_certificate_", issued.get(spent))


def read_evidence(folder: Path, record: ClassifierRecord) -> Evidence:
    """Return the evidence in a folder, which must be that of its record."""
    _check_file(folder / EVIDENCE, record.files.get(EVIDENCE, ""))
    arrays = {k: tensor.numpy() for k, tensor in load_tensors(folder / EVIDENCE)[0].items()}
    return Evidence(
        seed=record.seed,
        fraction=record.fraction,
        rows=arrays["rows"],
        labels=arrays["labels"],
        groups=arrays.get("groups"),
        predictions=dict(zip(record.shares, arrays["predictions"], strict=True)),
        shares=record.shares,
        claims=record.claims,
        answers=arrays.get("answers"),
        kept=arrays.get("kept"),
        mean=record.mean,
        weights=arrays.get("weights"),
        x_sha256=record.x_sha256,
        layout=record.layout,
    )


_MARK = "PACBayesClassifier"


def as_plain(model: Any) -> Any:
    """Return a fitted model with its network, or those of a pipeline's steps, as plain arrays."""
    return _mapped(model, lambda m: {_MARK: packed(m)} if isinstance(m, PACBayesClassifier) else m)


def from_plain(model: Any) -> Any:
    """Return the fitted model that `as_plain` was given."""
    return _mapped(model, lambda m: unpacked(m[_MARK]) if isinstance(m, dict) else m)


def _mapped(model: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(model, Pipeline):
        return change(model)
    pipeline = copy(model)
    pipeline.steps = [(name, _mapped(step, change)) for name, step in model.steps]
    return pipeline


@dataclass(frozen=True)
class SavedModel:
    """An open folder of a `CertifiedClassifier`."""

    folder: Path
    record: ClassifierRecord

    @property
    def kind(self) -> str:
        """What the folder holds."""
        return self.record.kind

    def load(self, trusted: Sequence[str] = ()) -> CertifiedClassifier:
        """Return the classifier, with the same predictions and certificates."""
        return load_classifier(self.folder, trusted)

    def predict(self, data: str | Path, label: str | None = None) -> Prediction:
        """Predict labels for a file, or for the test part of a named data set."""
        return predict_file(self.folder, str(data), label)

    def certify(self, delta: float = 0.05) -> Certificate:
        """Issue all certificates again at δ, to be chosen in advance; return the chosen one's."""
        return issue_again(self.folder, delta)


def open_model(folder: Path) -> SavedModel:
    """Open the folder of a `CertifiedClassifier`."""
    return SavedModel(folder, read_record(folder))


def issue_again(folder: Path, delta: float) -> Certificate:
    """Issue all certificates at δ, to be chosen in advance; return that of the chosen predictor.

    Candidates, shares and the chosen predictor stay as they are: the certificates of all candidates
    hold at once, but another choice would be one that no part of δ has paid for.
    """
    check_probability(delta)
    record = read_record(folder)
    if not (folder / CERTIFICATE).exists():
        raise ValueError(
            f"{folder} has no certificate: it was withheld when the classifier was fitted, and "
            "cannot be issued later"
        )
    check = check_evidence(folder)
    if not check.holds:
        raise DamagedFileError(f"{folder / EVIDENCE} is damaged: {check.detail}")
    evidence = read_evidence(folder, record)
    part, _ = read_certificates(folder, record, evidence) or ("", {})
    make = _votes if record.choose == "vote" else _certificates
    issued = {c.part: c for c in make(record, evidence, delta)}
    if part not in issued:
        raise DamagedFileError(f"{folder / CERTIFICATE} is damaged: it has no part {part!r}")
    labels = np.array(record.classes)[evidence.labels]
    issued[part] = remarked(issued[part], labels, evidence.groups)
    issue(folder, part, list(issued.values()))
    return issued[part]


def _bound_set(record: ClassifierRecord, e: Evidence, ledger: Any) -> tuple[BoundSet, Array]:
    """Return the bound set, and the names of the classes with None for no class."""
    names = np.array([*record.classes, None], object)
    own = np.setdiff1d(np.arange(record.n) if e.kept is None else e.kept, e.rows)
    groups = None if e.groups is None else e.groups[e.rows]
    loss = loss_of(names[:-1], record.costs, record.loss)
    split = Split(own, e.rows, record.seed)
    y, several = names[e.labels[e.rows]], len(record.claims) > 1
    return BoundSet(y, groups, loss, ledger, split, record.assumptions, several), names


def _certificates(record: ClassifierRecord, e: Evidence, delta: float) -> list[Certificate]:
    ledger = share_out(delta, list(e.shares), list(e.shares.values()), e.claims)
    there, names = _bound_set(record, e, ledger)
    found = [there.overall(name, names[index]) for name, index in e.predictions.items()]
    best, predicted = record.chosen, names[e.predictions[record.chosen]]
    for claim in e.claims:
        if claim == ANSWERED and e.answers is not None:
            found.append(there.answered(best, predicted, e.answers))
        elif claim == UNANSWERED and e.answers is not None:
            found.append(there.unanswered(best, e.answers))
        elif claim != OVERALL:
            found.append(there.on_class(best, predicted, claim.removeprefix("class ")))
    return found


def _votes(record: ClassifierRecord, e: Evidence, delta: float) -> list[Certificate]:
    ledger = share_out(delta, VOTES, (0.5, 0.5), [OVERALL])
    there, names = _bound_set(record, e, ledger)
    predicted = [names[index] for index in e.predictions.values()]
    wrong, weights = np.array([labels != there.y for labels in predicted]), np.asarray(e.weights)
    labels = WeightedVote([], weights, names[:-1]).of(predicted)
    return list(there.votes(wrong, list(e.shares.values()), weights, labels).values())


def read_certificates(
    folder: Path, run: ClassifierRecord, e: Evidence
) -> tuple[str, dict[str, Certificate]] | None:
    """Return the part of the chosen predictor and all certificates by part; None if withheld."""
    path = folder / CERTIFICATE
    if not path.exists():
        return None
    record = load_versioned(path, 1)
    try:
        issued = {
            part: read_classifier(c, run.assumptions, path, _risk_of_vote(c, e))
            for part, c in record["certificates"].items()
        }
        return record["chosen"], issued
    except DamagedFileError:
        raise
    except (TypeError, KeyError, AttributeError, ValueError, ArithmeticError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def _risk_of_vote(c: dict[str, Any], e: Evidence) -> float | None:
    """Return what a theorem for votes takes, which the file does not say; None for others."""
    if e.weights is None:
        return None
    groups = None if e.groups is None else e.groups[e.rows]
    wrong = np.array([p != e.labels[e.rows] for p in e.predictions.values()])
    given = (list(e.shares.values()), c["ledger"][c["part"]], c["theorem"])
    return vote_of(wrong, groups, *given)(e.weights).risk


def predict_file(folder: Path, data: str, label: str | None = None) -> Prediction:
    """Predict labels for a CSV or Parquet file, or for the test part of a named data set.

    Columns are matched by name where the classifier knows names.
    """
    record = read_record(folder)
    model = load_classifier(folder)
    x, found = _examples(folder, record, data, label)
    checked(found, record.classes, data)
    best = [[str(label) for label in answer] for answer in model.top(x)]
    answered = None if model.target_error is None else [bool(a) for a in model.answers(x)]
    said = model.certificate_.predictor if model.certificate_ else model.chosen_
    several = best if record.loss != "error" else None
    error = error_of(best, found, answered)
    return Prediction(said, [answer[0] for answer in best], None, error, answered, several)


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
