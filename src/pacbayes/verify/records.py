"""The files that `verify` reads: strictly, with nothing executed, and by one reader for all kinds.

A record has the fields that are checked; what else a file holds is of no concern.
"""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError, safe_open

from pacbayes.data import DataSource
from pacbayes.verify.enclosures import INEQUALITIES, THEOREMS, Theorem
from pacbayes.verify.formulas import NAMES
from pacbayes.verify.redraw import ACTIVATIONS, Array, Body, Data, Laws, Shapes, Weights

if TYPE_CHECKING:
    from pacbayes.verify.bases import Basis

__all__ = [
    "ANSWERED",
    "OVERALL",
    "UNANSWERED",
    "VOTES",
    "ClassifierCertificates",
    "ClassifierClaim",
    "ClassifierRun",
    "Evidence",
    "Features",
    "KernelRun",
    "NetworkClaim",
    "NetworkRun",
    "hash_of",
    "kind_of",
    "read",
    "read_header",
    "read_tensors",
]

Probability = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, lt=1)]
OVERALL, ANSWERED, UNANSWERED = "all", "answered", "unanswered"
VOTES = ("first-order", "tandem")


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)
    if_missing: ClassVar[str] = "verify needs a complete run folder"
    if_malformed: ClassVar[str] = ""


def _one_of(names: Iterable[str]) -> Any:
    return Field(pattern=f"^({'|'.join(names)})$")


class _Hashes(_Record):
    prior_sha256: str
    posterior_sha256: str
    data_sha256: str
    split_sha256: str | None = None
    features_sha256: str | None = None
    drawn_sha256: str | None = None


class NetworkClaim(_Record):
    """The certificate of a network."""

    if_malformed: ClassVar[str] = "; issue it again with pacbayes certify"

    format: Literal[4]
    predictor: str
    bound: Probability
    bound_name: Annotated[str, _one_of(THEOREMS)]
    parameters: dict[str, float]
    delta: Part
    ledger: dict[str, Part]
    risk: Probability
    risk_upper: Probability
    monte_carlo: Annotated[str, _one_of(INEQUALITIES)] | None
    samples: int = Field(ge=0, le=100_000)
    draws: float | None = Field(ge=1)
    within: float | None = Field(ge=0, le=0.5)
    quadrature_step: float | None = Field(None, gt=0, le=1)
    quadrature_error: Probability = 0.0
    n: int = Field(ge=8)
    kl: float
    class_name: str | None = None
    noun: Annotated[str, Field(pattern=r"^(top-([2-9]|[1-9][0-9]{1,8}) )?error$")] = "error"
    assumptions: dict[str, str | int | bool | None]
    provenance: _Hashes

    @property
    def labels(self) -> int:
        """The number of best scores, of which the label must have one."""
        return 1 if self.noun == "error" else int(self.noun[len("top-") : -len(" error")])

    @property
    def theorem(self) -> Theorem:
        """The row of the table of theorems."""
        return THEOREMS[self.bound_name]

    @property
    def mean_risk(self) -> float:
        """The risk, raised by the quadrature's error once for each network in the loss."""
        return min(1.0, self.risk + self.theorem.networks * self.quadrature_error)

    @property
    def part(self) -> str:
        """The theorem's part of the ledger, which best-of has for each of its theorems."""
        return "pac-bayes" if "pac-bayes" in self.ledger else f"pac-bayes, {self.bound_name}"


class _Data(_Record):
    source: DataSource
    train_sha256: str
    n: int
    features: int = Field(ge=1)
    classes: tuple[str, ...] = Field(min_length=2)
    split_sha256: str | None = None
    features_sha256: str | None = None
    shape: tuple[int, ...] | None = None  # of an image, for a smooth prior


class _Settings(_Record):
    activation: Annotated[str, _one_of(ACTIVATIONS)]
    widths: tuple[int, ...]
    learned_scale: bool
    prior_scale: float = Field(gt=0)
    prior_scales: tuple[float, ...] = ()
    prior_fraction: float = Field(0.0, ge=0, lt=1)
    prior_smooth: float = Field(0.0, ge=0, le=16)
    basis: Literal["none", "eigen"] = "none"
    repeats: bool = False
    seed: int = Field(ge=0)


class _Weights(_Record):
    name: str
    shape: tuple[int, ...]
    kind: Literal["normal", "one", "zero"]


class _Module(_Record):  # a network that is not dense
    architecture: dict[str, Any]
    weights: tuple[_Weights, ...] = Field(min_length=2)
    frozen: dict[str, tuple[int, ...]]

    @property
    def sampled(self) -> bool:
        """Whether anything below the last layer is drawn."""
        return any(not w.name.startswith("layer.") for w in self.weights)


class NetworkRun(_Record):
    """The run.json of a network."""

    settings: _Settings
    data: _Data
    network: _Module | None = None
    prior_sha256: str

    @model_validator(mode="after")
    def _images(self) -> NetworkRun:
        shape = self.data.shape or ()
        fits = len(shape) in (2, 3) and math.prod(shape) == self.data.features
        if self.settings.prior_smooth and not (fits and min(shape) > 0):
            raise ValueError(f"a smooth prior is for images, not for the shape {shape}")
        if self.in_basis and self.network is not None:
            raise ValueError("a basis is for dense networks")
        return self

    @property
    def in_basis(self) -> bool:
        """Whether the first layer's weights have a basis."""
        return self.settings.basis != "none" or self.settings.prior_smooth > 0

    @property
    def shapes(self) -> Shapes:
        """The shapes of the network's weights and biases, by name, from the first layer."""
        if self.network is not None:
            return {w.name: w.shape for w in self.network.weights}
        k, hidden = len(self.data.classes), self.settings.widths
        layers = [*(f"body.layers.{i}" for i in range(len(hidden))), "layer"]
        sizes = pairwise((self.data.features, *hidden, 1 if k == 2 else k))
        pairs = list(zip(layers, sizes, strict=True))
        each = ({f"{name}.weight": (e, d), f"{name}.bias": (e,)} for name, (d, e) in pairs)
        return {name: shape for shapes in each for name, shape in shapes.items()}


class _KernelPrior(_Record):
    features: Annotated[str, _one_of(NAMES)]
    kernel: str
    shape: tuple[int, ...]


class KernelRun(_Record):
    """The run.json of a kernel network."""

    kind: Literal["kernel"]
    prior: _KernelPrior
    data: _Data
    repeats: bool = False
    prior_sha256: str


class Features(_Record):
    """The features.json of a table."""

    columns: Any


class Evidence(NamedTuple):
    """What the certificate of a network rests on.

    Attributes:
        laws: prior and posterior.
        data: features and labels of the examples that it is about.
        units: what is independent, by number, for each of them.
        body: activations of a network that is not dense, at given weights.
        basis: of the first layer, if it has one; the prior of `laws` has its means there.
    """

    claim: NetworkClaim
    run: NetworkRun
    folder: Path
    laws: Laws
    data: Data
    units: Array
    body: Body | None
    basis: Basis | None = None


class ClassifierRun(_Record):
    """The run.json of a classifier."""

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
    loss: Annotated[str, Field(pattern=r"^(error|top-[1-9][0-9]{0,8})$")] = "error"
    repeats: bool
    deduplicated: bool = False
    files: dict[str, str]

    @property
    def labels(self) -> int:
        """The number of labels in an answer, which errs if the right one is not among them."""
        return 1 if self.loss == "error" else int(self.loss.removeprefix("top-"))

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
        pairs = [(name, OVERALL) for name in names]
        pairs += [(self.chosen, claim) for claim in self.claims if claim != OVERALL]
        return {self.part_of(*pair): pair for pair in pairs}

    def part_of(self, name: str, claim: str) -> str:
        """Return the part of the ledger that a claim about a candidate spends.

        If there are several claims, the name is quoted, so that no two parts have the same name.
        """
        if len(self.claims) == 1:
            return name
        quoted = json.dumps(name, ensure_ascii=False)
        return quoted if claim == OVERALL else f"{quoted}, {claim}"

    def quantity(self, claim: str) -> str:
        """Return what a certificate of a claim bounds, in words."""
        error = "error" if self.labels == 1 else f"{self.loss} error"
        nouns = {
            OVERALL: error if self.costs is None else "cost",
            ANSWERED: f"{error} on answered examples",
            UNANSWERED: "share of unanswered examples",
        }
        noun = nouns.get(claim, f"{error} on {claim}")
        return f"mean {noun} within a new group" if self.grouped else noun


class ClassifierClaim(_Record):
    """One certificate of a classifier."""

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


class ClassifierCertificates(_Record):
    """All certificates of a classifier, which are in one file."""

    if_missing: ClassVar[str] = (
        "without it there is nothing to verify: a certificate that was withheld when the "
        "classifier was fitted is not saved"
    )

    kind: Literal["classifier"]
    format: Literal[1]
    run_sha256: str
    chosen: str
    certificates: dict[str, ClassifierClaim] = Field(min_length=1)


Kind = TypeVar("Kind", bound=_Record)


def kind_of(folder: Path) -> str:
    """Return what a folder says that it holds; the first folders of networks did not say."""
    try:
        found = json.loads((folder / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):  # the strict reader says what is wrong
        return "network"
    return str(found.get("kind", "network")) if isinstance(found, dict) else "network"


def read(path: Path, kind: type[Kind]) -> Kind:
    """Return a JSON file as a record; raise ValueError if it is not one."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; {kind.if_missing}")
    text = path.read_bytes()
    try:
        json.loads(text, object_pairs_hook=_no_key_twice)
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        got = "" if first["type"] == "missing" else f", got {reprlib.repr(first['input'])}"
        raise ValueError(f"{path}: {where}: {first['msg']}{got}{kind.if_malformed}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def read_tensors(path: Path) -> Weights:
    """Return the arrays of a safetensors file."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist; {_Record.if_missing}")
    try:
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def read_header(path: Path) -> str:
    """Return what this library wrote into the header of a safetensors file that was read."""
    with safe_open(path, "np") as file:
        return str((file.metadata() or {}).get("pacbayes", ""))


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, or that it is missing."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
