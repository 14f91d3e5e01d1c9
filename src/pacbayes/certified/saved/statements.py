"""The files of a saved classifier as `verify` reads them: strictly, and with nothing executed."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open

from pacbayes.verify import Finding

__all__ = ["VOTES", "Claim", "Issued", "Run", "check_shapes", "finding", "read", "read_arrays"]

Array = NDArray[Any]
Part = Annotated[float, Field(gt=0, lt=1)]
_OVERALL, _ANSWERED, _UNANSWERED = "all", "answered", "unanswered"
VOTES = ("first-order", "tandem")


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class Run(_Record):
    """The fields of run.json that are needed."""

    kind: Literal["classifier"]
    format: Literal[1]
    classes: tuple[str, ...] = Field(min_length=2)
    n: int = Field(ge=2)
    seed: int = Field(ge=0)
    fraction: Part | Literal["auto"]
    grouped: bool
    choose: Literal["bound", "cross-validation", "vote"]
    chosen: str
    shares: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(min_length=1)
    claims: tuple[str, ...] = Field(min_length=1)
    costs: tuple[tuple[Annotated[float, Field(ge=0)], ...], ...] | None
    repeats: bool
    deduplicated: bool = False
    files: dict[str, str]

    @property
    def parts(self) -> dict[str, Fraction]:
        """The share of δ that each part of the ledger may have."""
        if self.choose == "vote":
            return dict.fromkeys(VOTES, Fraction(1, 2))
        pairs = ((name, claim) for name in self.shares for claim in self.claims)
        return {self.part_of(*p): Fraction(self.shares[p[0]]) / len(self.claims) for p in pairs}

    @property
    def claimed(self) -> dict[str, tuple[str, str]]:
        """The candidate and the claim of every certificate, by part."""
        names = VOTES if self.choose == "vote" else tuple(self.shares)
        pairs = [(name, _OVERALL) for name in names]
        pairs += [(self.chosen, claim) for claim in self.claims if claim != _OVERALL]
        return {self.part_of(*pair): pair for pair in pairs}

    def part_of(self, name: str, claim: str) -> str:
        """Return the part of the ledger that a claim about a candidate spends.

        If there are several claims, the name is quoted, so that no two parts have the same name.
        """
        if len(self.claims) == 1:
            return name
        quoted = json.dumps(name, ensure_ascii=False)
        return quoted if claim == _OVERALL else f"{quoted}, {claim}"

    def quantity(self, claim: str) -> str:
        """Return what a certificate of a claim bounds, in words."""
        nouns = {
            _OVERALL: "error" if self.costs is None else "cost",
            _ANSWERED: "error on answered examples",
            _UNANSWERED: "share of unanswered examples",
        }
        noun = nouns.get(claim, f"error on {claim}")
        return f"mean {noun} within a new group" if self.grouped else noun


class Claim(_Record):
    """The fields of a certificate that are checked."""

    bound: float = Field(ge=0)
    quantity: str
    predictor: str
    theorem: Literal["held-out", "kl-chernoff", "first-order", "tandem"]
    n: int = Field(ge=0)
    losses: float = Field(ge=0)
    delta: Part
    ledger: dict[str, Part]
    part: str
    kl: float = Field(ge=0)
    scale: float = Field(gt=0)
    assumptions: tuple[str, ...]
    provenance: dict[str, str | int]


class Issued(_Record):
    """The contents of certificate.json."""

    kind: Literal["classifier"]
    format: Literal[1]
    run_sha256: str
    chosen: str
    certificates: dict[str, Claim] = Field(min_length=1)


Kind = TypeVar("Kind", Run, Issued)


def read(path: Path, kind: type[Kind]) -> Kind:
    """Return a JSON file as a record; raise ValueError if it is not one."""
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist; without it there is nothing to verify: a certificate that was "
            "withheld when the classifier was fitted is not saved"
        )
    text = path.read_bytes()
    try:
        json.loads(text, object_pairs_hook=_no_key_twice)
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise ValueError(
            f"{path}: {where}: {first['msg']}, got {reprlib.repr(first['input'])}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a safetensors file."""
    try:
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def finding(name: str, detail: str, must: Mapping[str, bool]) -> Finding:
    """Return a finding; `must` maps the text of each fault to the condition that rules it out."""
    faults = [fault for fault, absent in must.items() if not absent]
    return Finding(name, not faults, "; ".join(faults) or detail)


def check_shapes(run: Run, e: Mapping[str, Array]) -> Finding:
    """Check that labels, groups and predictions are what run.json says they are."""
    k, m = len(run.classes), len(run.shares)
    known = (_OVERALL, _ANSWERED, _UNANSWERED, *(f"class {name}" for name in run.classes))
    wanted = {"rows", "labels", "predictions"} | ({"groups"} if run.grouped else set())
    wanted |= {"answers"} if {_ANSWERED, _UNANSWERED} & set(run.claims) else set()
    wanted |= {"weights"} if run.choose == "vote" else set()
    wanted |= {"kept"} if run.deduplicated else set()
    if e.keys() != wanted:
        return Finding("evidence", False, f"has {sorted(e)}, must have {sorted(wanted)}")
    size = e["rows"].size
    square = run.costs is None or [len(row) for row in run.costs] == [k] * k
    candidates = ("vote",) if run.choose == "vote" else tuple(run.shares)
    integers = all(e[name].dtype == np.int64 for name in wanted - {"answers", "weights"})
    must = {
        "rows, labels, groups and predictions must be 64-bit integers": integers,
        f"must have labels of {run.n} examples": e["labels"].shape == (run.n,),
        "rows must be increasing indices of examples": _are_indices(e["rows"], run.n, 1),
        "must predict each example once": e["predictions"].shape == (m, size),
        "labels must be classes": bool(((e["labels"] >= 0) & (e["labels"] < k)).all()),
        "must predict classes": bool(((e["predictions"] >= -1) & (e["predictions"] < k)).all()),
        "kept must be increasing indices of examples": _are_indices(e.get("kept"), run.n, 2),
        "costs must be one number for each pair of classes": square,
        "must have one group for each example": e.get("groups", e["labels"]).shape == (run.n,),
        "must have one answer for each example": e.get("answers", e["rows"]).shape == (size,),
        "answers must be true or false": e.get("answers", np.array(True)).dtype == np.bool_,
        "weights must be positive": _are_weights(e.get("weights", np.ones(m)), m),
        f"the chosen {run.chosen!r} is no candidate": run.chosen in candidates,
        "two classes have the same name": len(set(run.classes)) == k,
        "claims must be different, known, and first about all examples": (
            run.claims[0] == _OVERALL
            and len(set(run.claims)) == len(run.claims)
            and set(run.claims) <= set(known)
        ),
        "some cost must be positive": run.costs is None or any(map(any, run.costs)),
    }
    return finding("evidence", f"{m} candidates on {size} of {run.n} examples", must)


def _are_indices(index: Array | None, n: int, least: int) -> bool:
    if index is None:
        return True
    within = index.ndim == 1 and index.size >= least and index.min() >= 0 and index.max() < n
    return bool(within and (np.diff(index) > 0).all())


def _are_weights(weights: Array, m: int) -> bool:
    plain = weights.shape == (m,) and weights.dtype == np.float64
    return bool(plain and np.isfinite(weights).all() and weights.min() >= 0 and weights.sum() > 0)
