"""The contents of the JSON files in the folder of a classifier, validated when read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import Certificate, read_classifier
from pacbayes.data.layout import Layout
from pacbayes.files import DamagedFileError, load_versioned
from pacbayes.models.candidates import vote_of
from pacbayes.models.claims import Evidence

__all__ = ["FOLDER_FILES", "KIND", "ClassifierRecord", "read_certificates", "read_record"]

KIND = "classifier"
RUN, CERTIFICATE, EVIDENCE, MODELS = (
    "run.json",
    "certificate.json",
    "evidence.safetensors",
    "models.skops",
)
FOLDER_FILES = (RUN, CERTIFICATE, EVIDENCE, MODELS, "data.*", "test.json", "report.html")


class ClassifierRecord(BaseModel):
    """The contents of run.json.

    Attributes:
        classes: their names, in the order of indices.
        n: number of examples, the bound set included.
        seed, fraction, grouped: how the bound set is drawn.
        choose, chosen: how the predictor was chosen, and its name.
        shares: each candidate's share of δ.
        claims: what is claimed of each candidate.
        costs: the cost of answering the class in column j to one in row i, if errors are not equal.
        repeats, deduplicated: whether copies were declared natural, or removed.
        mean: weights of candidates in their mean; 1 where there is none.
        x_sha256: hash of the features of all examples.
        layout: columns of the table.
        source: file or data set that the examples came from, relative to the folder.
        files: SHA-256 of the other files, except the certificate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["classifier"] = "classifier"
    format: Literal[1] = 1
    classes: tuple[str, ...] = Field(min_length=2)
    n: int = Field(ge=2)
    seed: int
    fraction: float | Literal["auto"]
    grouped: bool
    choose: Literal["bound", "cross-validation", "vote"]
    chosen: str
    shares: dict[str, float]
    claims: tuple[str, ...]
    costs: tuple[tuple[float, ...], ...] | None = None
    repeats: bool
    deduplicated: bool = False
    mean: dict[str, float] = {}
    x_sha256: str
    layout: Layout | None
    source: str | None = None
    files: dict[str, str]
    versions: dict[str, str]

    @property
    def assumptions(self) -> Assumptions:
        """What the certificates take on trust."""
        return Assumptions(
            repeats=self.repeats,
            deduplicated=self.deduplicated,
            split_seed=self.seed,
            group="" if self.grouped else None,
            covers="candidates",
        )


def read_record(folder: Path) -> ClassifierRecord:
    """Return the record in a classifier's folder."""
    path = folder / RUN
    try:
        return ClassifierRecord.model_validate(load_versioned(path, 1))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise DamagedFileError(f"{path} is damaged: {where}: {first['msg']}") from error


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
