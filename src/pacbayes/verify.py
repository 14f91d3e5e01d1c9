"""Check a certificate without trusting its issuer.

Everything the bound rests on is computed again from the files beside the certificate, in
outward-rounded interval arithmetic (Arb): hashes, the δ ledger, n, a data-free prior, the KL, the
Monte-Carlo term and the bound. Three files use no PyTorch and nothing of the library except its
loaders and checks of data: this one, `enclosures` with the theorems, and `redraw` with the random
numbers. The sampled risk is taken as claimed unless `full` makes the same draws again. A network
that is not dense is evaluated by its own module, which the caller passes in: it runs code, so that
without it the errors of such a network are taken as claimed. What no file can show, such as
independent examples, is listed as the issuer's word.
"""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open

from pacbayes.data import Dataset, DataSource
from pacbayes.data.frame import Frame
from pacbayes.data.refitting import features, plain, refit
from pacbayes.data.sample import NoSampleError, check_sample, check_split
from pacbayes.enclosures import (
    THEOREMS,
    Terms,
    Theorem,
    kl_chernoff,
    quadrature_error,
    stratified_bernstein,
)
from pacbayes.redraw import BLOCK, Body, is_data_free, is_kept, measure, measure_shared

__all__ = ["Finding", "certificates_in", "verify"]

_BITS = 128  # precision of the interval arithmetic
_CLOSE = 1e-9  # scores that differ by less are a tie, and a tie is an error
_BLOCK = 10_000  # examples whose errors are counted at a time
_FITTED = "features.json, fitted to the prior's part alone"
_COUNTED, _RESAMPLED = "errors counted", "risk of the same draws"
Array = NDArray[Any]
Rows = Array | Frame  # examples as they came
Weights = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]
Laws = tuple[Weights, Weights]  # prior, posterior
Data = tuple[Array, Array]  # features, class indices
Probability = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, lt=1)]


# Upper confidence values of the mean of N draws, enclosed.
_INEQUALITIES: dict[str, Callable[[_Claim, float, arb, arb, int], arb]] = {
    "kl-chernoff": lambda c, risk, N, delta, block: kl_chernoff(risk, N, delta),
    "stratified-bernstein": lambda c, risk, N, delta, block: stratified_bernstein(
        risk,
        None if c.theorem.networks == 2 else c.within,
        arb(c.n * (c.samples // 2)) / block,
        N,
        delta,
    ),
}
_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: np.maximum(z, 0),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "sign": lambda z: np.where(z >= 0, 1.0, -1.0),
}


def _one_of(names: Iterable[str]) -> Any:
    return Field(pattern=f"^({'|'.join(names)})$")


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _Hashes(_Record):
    prior_sha256: str
    posterior_sha256: str
    data_sha256: str
    split_sha256: str | None = None
    features_sha256: str | None = None
    drawn_sha256: str | None = None


class _Claim(_Record):  # the fields of a certificate that are checked
    format: Literal[4]
    predictor: str
    bound: Probability
    bound_name: Annotated[str, _one_of(THEOREMS)]
    parameters: dict[str, float]
    delta: Part
    ledger: dict[str, Part]
    risk: Probability
    risk_upper: Probability
    monte_carlo: Annotated[str, _one_of(_INEQUALITIES)] | None
    samples: int = Field(ge=0, le=100_000)
    draws: float | None = Field(ge=1)
    within: float | None = Field(ge=0, le=0.5)
    quadrature_step: float | None = Field(None, gt=0, le=1)
    quadrature_error: Probability = 0.0
    n: int = Field(ge=8)
    kl: float
    class_name: str | None = None
    assumptions: dict[str, str | int | bool | None]
    provenance: _Hashes

    @property
    def theorem(self) -> Theorem:
        return THEOREMS[self.bound_name]

    @property
    def mean_risk(self) -> float:
        """The risk, raised by the quadrature's error once for each network in the loss."""
        return min(1.0, self.risk + self.theorem.networks * self.quadrature_error)

    @property
    def part(self) -> str:
        """The theorem's part of the ledger, which best-of has for each of its theorems."""
        return "pac-bayes" if "pac-bayes" in self.ledger else f"pac-bayes, {self.bound_name}"

    def spent(self, part: str) -> arb:
        return arb(self.ledger.get(part, 1e-300))  # so little that every bound fails


class _Data(_Record):
    source: DataSource
    train_sha256: str
    n: int
    features: int = Field(ge=1)
    classes: tuple[str, ...] = Field(min_length=2)
    split_sha256: str | None = None
    features_sha256: str | None = None


class _Settings(_Record):
    activation: Annotated[str, _one_of(_ACTIVATIONS)]
    widths: tuple[int, ...]
    learned_scale: bool
    prior_scale: float = Field(gt=0)
    prior_scales: tuple[float, ...] = ()
    prior_fraction: float = Field(0.0, ge=0, lt=1)
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


class _Run(_Record):  # the fields of run.json that are needed
    settings: _Settings
    data: _Data
    network: _Module | None = None
    prior_sha256: str


Kind = TypeVar("Kind", _Claim, _Run)


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        word: nothing was checked; it is the issuer's word.
        bound: the verifier's own number, where the check ends in one.
    """

    name: str
    holds: bool
    detail: str
    word: bool = False
    bound: float | None = None

    @property
    def measures_risk(self) -> bool:
        """Whether the check counted or sampled errors, instead of trusting the claimed risk."""
        return self.name in (_COUNTED, _RESAMPLED)


def certificates_in(path: Path) -> list[Path]:
    """Return the paths of all certificates in a run folder, or the path itself if it is a file."""
    if not path.is_dir():
        return [path]
    return sorted(path.glob("certificate*.json")) or [path / "certificate.json"]


def verify(
    path: Path,
    *,
    full: bool = False,
    data: Path | None = None,
    prior: Weights | None = None,
    body: Body | None = None,
) -> Iterator[Finding]:
    """Check the certificate at `path` against the run folder it lies in.

    Raises ValueError if files are missing, damaged or malformed.

    Args:
        full: make the draws of the risk again, and derive the bound from them.
        data: where the run's own data file is now, if it has moved.
        prior: a prior to derive the bound with instead of the run's, for example learned again.
        body: activations of a network that is not dense, at given weights; needed for `full`.
    """
    ctx.prec = _BITS
    folder = path.parent
    c, run = _read(path, _Claim), _read(folder / "run.json", _Run)
    laws = _tensors(folder / "prior.safetensors"), _tensors(folder / "posterior.safetensors")
    yield from _files(c, run, folder)
    yield _ledger(c, run.settings, len(run.data.classes))
    rows, y, classes, found = _load(run.data, folder, data)
    claimed = c.provenance.data_sha256
    yield _equal("hash of the data", found, certificate=claimed, run=run.data.train_sha256)
    units = _units(run, rows)
    index, finding = _split(c, run, folder, units)
    counted, sizes = _counted_examples(c, run, y, units, index)
    names = _equal("classes", classes, run=run.data.classes)
    weights = _network(run, *laws)
    yield from (finding, sizes, names, weights)
    if not (sizes.holds and names.holds and weights.holds):
        return  # the rest cannot be computed
    x, fitted, finding = _features(c, run, folder, rows, index)
    yield finding
    if x.shape[1] != run.data.features:
        return
    yield _sample(run, rows, y, index)
    yield from _words(c, run, laws[0], again=prior is not None, fitted=fitted)
    unseen = run.network is not None and body is None  # errors cannot be counted
    if "guess" in c.parameters and unseen:
        yield Finding("word", True, "the guess of the risk is the prior's error on its part", True)
    elif "guess" in c.parameters:
        own = np.setdiff1d(np.arange(len(x)), index)
        guess, finding = _guess(c, run, prior or laws[0], (x[own], y[own]), body)
        yield finding if prior is None else replace(finding, holds=True)  # the bound decides
        c = c.model_copy(update={"parameters": {**c.parameters, "guess": guess}})
    laws, bound_set = (laws[0] if prior is None else prior, laws[1]), _rows(x, y, counted)
    if run.data.source.group is not None:
        yield (finding := _of_groups(c))
        if not finding.holds:
            return
    if c.bound_name in _OF_ONE_NETWORK:
        check_one = _OF_ONE_NETWORK[c.bound_name]
        yield from check_one(c, run, folder, laws, bound_set, units[counted], body)
        return
    kl, finding = _kl(c, *laws)
    yield finding if prior is None else replace(finding, holds=True)  # the bound decides
    if len(classes) > 2:
        yield _quadrature(c, len(classes))
    measured = _measured(c, run, laws, bound_set, body) if full else c
    check = _exact_risk if c.draws is None else _monte_carlo
    upper, finding = check(measured, run)
    yield replace(finding, name=_RESAMPLED) if full else finding
    yield _bound(c, upper if full else c.risk_upper, kl, c.spent(c.part))


def _rows(x: Array, y: Array, index: Array) -> Data:
    """Return some examples; all of them are not copied."""
    return (x, y) if len(index) == len(x) else (x[index], y[index])


def _finding(name: str, detail: str, must: Mapping[str, bool]) -> Finding:
    """Return a finding; `must` maps the text of each fault to the condition that rules it out."""
    faults = [fault for fault, absent in must.items() if not absent]
    return Finding(name, not faults, "; ".join(faults) or detail)


def _equal(name: str, found: object, **claimed: object) -> Finding:
    """Return a finding that holds if certificate, run and theorem claim what was found."""
    must = {f"{found} found, {c} in the {where}": c == found for where, c in claimed.items()}
    return _finding(name, str(found), must)


def _read(path: Path, kind: type[Kind]) -> Kind:
    text = _existing(path).read_bytes()
    try:
        json.loads(text, object_pairs_hook=_no_key_twice)
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        got = "" if first["type"] == "missing" else f", got {reprlib.repr(first['input'])}"
        again = "; issue it again with pacbayes certify" if kind is _Claim else ""
        raise ValueError(f"{path}: {where}: {first['msg']}{got}{again}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path} does not exist; verify needs a complete run folder")
    return path


def _tensors(path: Path) -> Weights:
    try:
        with safe_open(_existing(path), "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _load(
    data: _Data, folder: Path, moved: Path | None
) -> tuple[Rows, Array, tuple[str, ...], str]:
    """Return the training examples, their class indices, the classes' names, and a hash."""
    source = data.source.located(folder)
    loaded = (replace(source, test=None).moved(moved, None) if moved else source).read()
    rows = loaded.x_train if isinstance(loaded, Dataset) else loaded.train
    return rows, loaded.y_train, loaded.classes, loaded.train_sha256


def _units(run: _Run, rows: Rows) -> Array:
    """Return what is independent, for each example: itself, or its group by number."""
    if run.data.source.group is None or not isinstance(rows, Frame) or rows.group is None:
        return np.arange(len(rows))
    return np.unique(rows.group.values, return_inverse=True)[1]


def _of_groups(c: _Claim) -> Finding:
    """Check that the theorem holds for losses in [0, 1], as mean errors of groups are."""
    fits = c.class_name is None and c.bound_name in _FOR_GROUPS
    return _finding("groups", f"{c.n} mean errors", {f"{c.bound_name} is not for groups": fits})


def _features(
    c: _Claim, run: _Run, folder: Path, rows: Rows, index: Array
) -> tuple[Array, bool, Finding]:
    """Return the features of all examples, and whether they were fitted to the prior's rows.

    Those of a table are computed from its rows alone, and features.json must say the same.
    """
    claimed, certified = run.data.features_sha256, c.provenance.features_sha256
    must = {"certificate and run.json name different features": claimed == certified}
    if not isinstance(rows, Frame):
        must["features.json is for tables"] = claimed is None
        return rows, False, _finding("features", "as they are in the data", must)
    codes, own = plain(rows), np.setdiff1d(np.arange(len(rows)), index)
    detail, fitted = "the columns as they are", False
    if claimed is not None:
        stored = _columns(folder / "features.json")
        fitted = stored != codes and len(own) > 0
        codes = refit(rows, own) if fitted else codes
        sha256 = _sha256(folder / "features.json")
        must["features.json is not the one that was certified"] = sha256 == claimed
        must["features.json is not what the prior's rows determine"] = stored == codes
        detail = f"constants fitted to the prior's {len(own)} rows again" if fitted else detail
    return features(rows, codes), fitted, _finding("features", detail, must)


def _columns(path: Path) -> Any:
    """Return the columns in features.json."""
    try:
        found = json.loads(_existing(path).read_bytes(), object_pairs_hook=_no_key_twice)
        return found["columns"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _files(c: _Claim, run: _Run, folder: Path) -> Iterator[Finding]:
    """Check that certificate, prior, posterior and run belong together."""
    yield _equal("predictor", c.predictor, theorem=c.theorem.predictor)
    found, claimed = _sha256(folder / "prior.safetensors"), c.provenance.prior_sha256
    yield _equal("hash of the prior", found, certificate=claimed, run=run.prior_sha256)
    path, own = folder / "posterior.safetensors", _sha256(folder / "run.json")
    yield _equal("hash of the posterior", _sha256(path), certificate=c.provenance.posterior_sha256)
    with safe_open(path, "np") as file:
        header = (file.metadata() or {}).get("pacbayes", "")
    must = {f"the posterior belongs to another run.json than {own}": own in header}
    yield _finding("hash of run.json", own, must)


def _ledger(c: _Claim, settings: _Settings, classes: int) -> Finding:
    """Check that the parts fit into δ and pay for theorem, sampling, priors, seed and classes."""
    total = sum(Fraction(part) for part in c.ledger.values())
    spent = total - sum(Fraction(c.ledger.get(f"other {of}", 0)) for of in ("seeds", "classes"))
    shares = 1 if settings.prior_fraction else (settings.seed + 1) * (settings.seed + 2)
    shares *= 1 if c.class_name is None else classes
    scales = settings.prior_scales or (settings.prior_scale,)
    own = {k: part for k, part in c.ledger.items() if not k.startswith("other ")}
    others = {f"other prior {i}, {name}": own[name] for i in range(1, len(scales)) for name in own}
    sampled = ("monte-carlo" in c.ledger) == (c.draws is not None)
    paid = all(c.ledger.get(name, 0.0) >= part for name, part in others.items())
    must = {
        f"the parts add up to {float(total):g}, more than δ": total <= Fraction(c.delta),
        f"this seed and class may spend δ/{shares}": spent * shares <= Fraction(c.delta),
        f"the part {c.part!r} is missing": c.part in c.ledger,
        "'monte-carlo' must be a part if the risk was sampled, and only then": sampled,
        f"the prior scale must be one of {scales}": settings.prior_scale in scales,
        f"each of {len(scales)} priors must have the same parts": paid,
    }
    detail = f"{float(spent):g} of {c.delta:g} spent, parts: {len(c.ledger)}, priors: {len(scales)}"
    return _finding("δ ledger", detail, must)


def _sample(run: _Run, rows: Rows, y: Array, index: Array) -> Finding:
    """Check that examples do not visibly depend on each other, or features on the bound set."""
    s, own = run.settings, np.setdiff1d(np.arange(len(y)), index)
    groups = None if run.data.source.group is None else _units(run, rows)
    both = (rows.as_numbers(), rows.continuous()) if isinstance(rows, Frame) else (rows, rows)
    raw, smooth = both
    try:
        remarks = check_sample(raw, y, repeats=s.repeats, groups=groups)
        remarks += check_split(smooth, own, index, repeats=s.repeats) if len(own) else []
    except NoSampleError as error:
        return Finding("examples", False, str(error))
    return Finding("examples", True, "; ".join(remarks) or "nothing speaks against independence")


def _words(c: _Claim, run: _Run, prior: Weights, *, again: bool, fitted: bool) -> Iterator[Finding]:
    """Check that the assumptions are those of the run, and list them as the issuer's word."""
    s, learned = run.settings, run.settings.prior_fraction > 0
    seed = {"split_seed" if learned else "prior_seed": s.seed}
    source = run.data.source
    removed = {"deduplicated": True} if source.deduplicate else {}
    seen = {"preprocessing": _FITTED} if fitted else {}
    seen |= {} if source.group is None else {"group": source.group}
    seen |= _of_module(run.network, prior)
    expected = {"data": source.name, "repeats": s.repeats, **seed, **removed, **seen}
    given = {name: value for name, value in c.assumptions.items() if value is not None}
    yield _equal("assumptions", expected, certificate=given)
    whom = "examples" if source.group is None else f"groups (column {source.group!r})"
    words = {
        f"the {whom} of {expected['data']} are independent, and new ones come from there": True,
        "their features were computed without looking at the bound set": True,
        "theorem, inequality and number of draws were chosen in advance": True,
        "the posterior was final before any of its draws were seen": True,
        "nothing else was tried on the bound set than the ledger pays for": True,
        "new examples do not repeat either: copies were removed": source.deduplicate,
        "examples that repeat are natural in these data": s.repeats,
        f"no other split was tried than that of seed {s.seed}": learned,
        "the prior learned from its own part alone; --relearn checks it": learned and not again,
        "the network's code keeps nothing of the bound set outside its tensors": "code" in seen,
        "the tensors outside Q have not seen the bound set": "body_sha256" in seen,
    }
    yield from (Finding("word", True, text, word=True) for text, given in words.items() if given)


def _of_module(network: _Module | None, prior: Weights) -> dict[str, str]:
    """Return what a certificate must say of a module's code and of its tensors outside Q."""
    if network is None:
        return {}
    found, built = {}, network.architecture
    if built.get("kind") == "file":
        found["code"] = f"{built.get('file')}:{built.get('function')}, SHA-256 {built['sha256']}"
    if network.frozen:
        hasher = hashlib.sha256()
        for name in sorted(network.frozen):
            wide = prior[name].astype(float) if prior[name].dtype.kind == "f" else prior[name]
            hasher.update(f"{name} {wide.shape}".encode())
            hasher.update(np.ascontiguousarray(wide).tobytes())
        found["body_sha256"] = hasher.hexdigest()
    return found


def _split(c: _Claim, run: _Run, folder: Path, units: Array) -> tuple[Array, Finding]:
    """Return the bound set: all examples, or those that the prior did not learn from.

    Whole units are drawn: examples, or groups of them.
    """
    total, count = len(units), int(units.max()) + 1
    s, claimed, learned = run.settings, c.provenance.split_sha256, run.settings.prior_fraction > 0
    same = {"certificate and run.json name different splits": run.data.split_sha256 == claimed}
    if claimed is None:
        must = same | {"the prior learned from data, so a split is needed": not learned}
        return np.arange(total), _finding("bound set", f"all {total} examples", must)
    words = np.random.SeedSequence(s.seed, spawn_key=(4,)).generate_state(1, np.uint64)
    order = np.random.default_rng(int(words[0])).permutation(count)
    drawn = np.flatnonzero(np.isin(units, order[round(s.prior_fraction * count) :]))
    path = folder / "split.safetensors"
    found = _tensors(path).get("bound", np.empty(0)).tobytes()  # of int64, or not the same
    must = same | {
        "split.safetensors is not the one that was certified": _sha256(path) == claimed,
        "the prior is data-free, so a split is not allowed": learned,
        f"split.safetensors is not what seed {s.seed} draws": found == drawn.tobytes(),
        "the prior's part is empty": len(drawn) < total,
    }
    detail = f"{len(drawn)} of {total} examples, drawn by seed; the prior learned from the others"
    finding = _finding("bound set", detail, must)
    return drawn if finding.holds else np.arange(0), finding


def _counted_examples(
    c: _Claim, run: _Run, y: Array, units: Array, index: Array
) -> tuple[Array, Finding]:
    """Return the examples that the certificate is about: the bound set, or one class of it."""
    if c.class_name is None:
        count = len(np.unique(units[index]))
        return index, _equal("size of the bound set", count, certificate=c.n, run=run.data.n)
    names = run.data.classes
    known = c.class_name in names
    counted = index[y[index] == names.index(c.class_name)] if known else index[:0]
    must = {
        f"class {c.class_name} is not among {', '.join(names)}": known,
        f"{len(counted)} examples found, {c.n} in the certificate": len(counted) == c.n,
        f"{len(index)} in the bound set, {run.data.n} in the run": len(index) == run.data.n,
    }
    return counted, _finding(f"examples of class {c.class_name}", str(len(counted)), must)


def _network(run: _Run, prior: Weights, posterior: Weights) -> Finding:
    """Check that Q has the weights of the run's network and no others, all covered by the prior."""
    layers = _shapes(run)
    kinds = ("mean", "log_scale") if run.settings.learned_scale else ("mean",)
    q = {f"{name}.{kind}": shape for name, shape in layers.items() for kind in kinds}
    p = {f"{name}.prior_mean": shape for name, shape in layers.items()}
    p |= {f"{name}.prior_log_scale": () for name in layers}
    frozen = {} if run.network is None else run.network.frozen
    p |= frozen
    must = {
        "the posterior does not have the tensors of the run's network": _fits(posterior, q),
        "the prior does not have the tensors of the run's network": _fits(prior, p, frozen),
    }
    if all(must.values()):
        stated = all(_as_stated(name, prior, run.settings) for name in layers)
        must["the prior's scales are not those of the settings"] = stated
        drawn = run.settings.prior_fraction > 0 or _data_free(run, prior)
        must[f"the prior is not what seed {run.settings.seed} draws"] = drawn
    count = sum(v.size for v in posterior.values())
    return _finding("weights of the network", f"{count} numbers in Q", must)


def _data_free(run: _Run, prior: Weights) -> bool:
    """Return whether the means of a prior are those of its seed, and norms at one and zero."""
    kinds = dict.fromkeys(_shapes(run), "normal")
    kinds |= {} if run.network is None else {w.name: w.kind for w in run.network.weights}
    means = {name: prior[f"{name}.prior_mean"].ravel() for name in kinds}
    fixed = {"one": 1.0, "zero": 0.0}
    still = all((means[name] == fixed[k]).all() for name, k in kinds.items() if k in fixed)
    drawn = [means[name] for name, kind in kinds.items() if kind == "normal"]
    return still and is_data_free(run.settings.seed, drawn)


def _shapes(run: _Run) -> Shapes:
    """Return the shapes of the network's weights and biases, by name, from the first layer."""
    if run.network is not None:
        return {w.name: w.shape for w in run.network.weights}
    k, hidden = len(run.data.classes), run.settings.widths
    layers = [*(f"body.layers.{i}" for i in range(len(hidden))), "layer"]
    sizes = pairwise((run.data.features, *hidden, 1 if k == 2 else k))
    pairs = list(zip(layers, sizes, strict=True))
    each = ({f"{name}.weight": (e, d), f"{name}.bias": (e,)} for name, (d, e) in pairs)
    return {name: shape for shapes in each for name, shape in shapes.items()}


def _fits(weights: Weights, expected: Shapes, frozen: Collection[str] = ()) -> bool:
    """Return whether the tensors have the expected shapes and consist of finite float32 numbers.

    Those that are frozen may be of any type.
    """
    exact = all(w.dtype == np.float32 for name, w in weights.items() if name not in frozen)
    finite = exact and all(np.isfinite(w).all() for w in weights.values())
    return finite and {name: w.shape for name, w in weights.items()} == expected


def _as_stated(name: str, prior: Weights, settings: _Settings) -> bool:
    """Return whether every weight of a prior has the stated scale."""
    scale = np.float32(math.log(settings.prior_scale))
    return bool(prior[f"{name}.prior_log_scale"] == scale)


def _gaussians(prior: Weights, posterior: Weights) -> Iterator[tuple[str, arb, list[list[float]]]]:
    """Yield for every tensor of weights its name, ln σ₀, and lists of μ, μ₀ and ln σ."""
    for name in (key.removesuffix(".mean") for key in posterior if key.endswith(".mean")):
        s0, means = prior[f"{name}.prior_log_scale"], posterior[f"{name}.mean"]
        logs = np.broadcast_to(posterior.get(f"{name}.log_scale", s0), means.shape)
        each = (means, prior[f"{name}.prior_mean"], logs)
        yield name, arb(float(s0)), [a.ravel().tolist() for a in each]


def _kl(c: _Claim, prior: Weights, posterior: Weights) -> tuple[arb, Finding]:
    """Enclose ½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²]."""
    total = arb(0)
    for _, s0, each in _gaussians(prior, posterior):
        shifts = arb(0)
        for mean, center, log in zip(*each, strict=True):
            shifts += (arb(mean) - arb(center)) ** 2
            r = 2 * (arb(log) - s0)
            total += r.expm1() - r
        total += shifts * (-2 * s0).exp()
    kl = total / 2
    return kl, Finding("KL(Q|P)", bool(arb(c.kl) >= kl), f"{c.kl:.4f} claimed, {kl.str(12)}")


def _quadrature(c: _Claim, classes: int) -> Finding:
    best = quadrature_error(classes, c.quadrature_step or 1.0)
    holds = c.quadrature_step is not None and bool(arb(c.quadrature_error) >= best)
    return Finding("quadrature", holds, f"{c.quadrature_error:.2g} claimed, {best.str(5)} proved")


def _exact_risk(c: _Claim, run: _Run) -> tuple[float, Finding]:
    risk, upper, s = c.mean_risk, c.risk_upper, run.settings
    summable = s.activation == "sign" or not s.widths
    if run.network is not None:
        summable = not run.network.sampled
    must = {
        "a network whose hidden units are drawn has no exact risk": summable,
        f"risk_upper is {upper:.6f}, below the risk {risk:.6f}": risk <= upper,
        "samples must be 0 and monte_carlo null": c.samples == 0 and c.monte_carlo is None,
    }
    return risk, _finding("exact risk", f"{risk:.6f} raised to {upper:.6f}", must)


def _monte_carlo(c: _Claim, run: _Run) -> tuple[float, Finding]:
    risk, upper, name = c.mean_risk, c.risk_upper, c.monte_carlo
    block = 1 if run.network is None else min(c.n, BLOCK)  # examples that share a draw
    N = Fraction(c.n * (c.samples // c.theorem.networks), block)
    delta, draws = c.spent("monte-carlo"), arb(N.numerator) / N.denominator
    value = _INEQUALITIES[name](c, risk, draws, delta, block) if name else arb("inf")
    same = c.draws is not None and abs(Fraction(c.draws) / N - 1) < 1e-12 if N else False
    holds = same and risk <= upper and (upper >= 1 or bool(arb(upper) >= value))
    needed = min(1.0, float(value.upper()))
    detail = (
        f"{risk:.6f} raised to {upper:.6f}, {needed:.6f} needed by {name} with {float(N):g} draws"
    )
    return needed, Finding("Monte-Carlo term", holds, detail)


def _bound(c: _Claim, risk: float, kl: arb, delta: arb) -> Finding:
    """Check the claimed bound by its theorem's row of the table, at an upper bound of the risk."""
    row = c.theorem
    terms = Terms(arb(risk), row.networks * kl, c.n, delta, c.parameters)
    value = row.markov * row.value(terms)
    own = min(1.0, float(value.upper())) if value.is_finite() else 1.0
    holds = risk <= c.bound and (c.bound >= 1 or bool(arb(c.bound) >= value))
    detail = f"{c.bound:.6f} claimed, {own:.6f} needed at δ = {float(delta):g}"
    return Finding(f"bound ({c.bound_name})", holds, detail, bound=own)


def _drawn(
    c: _Claim,
    run: _Run,
    folder: Path,
    laws: Laws,
    data: Data,
    units: Array,
    body: Body | None,
) -> Iterator[Finding]:
    """Check a drawn network: its weights, ln(dQ/dP), its errors and the disintegrated bound."""
    claimed = c.provenance.drawn_sha256
    path = folder / f"drawn-{str(claimed)[:16]}.safetensors"  # until its certificate is there
    path = path if path.exists() else folder / "drawn.safetensors"
    drawn, found = _tensors(path), _sha256(path)
    shapes: Shapes = {name: w.shape for name, w in drawn.items()}
    must = {
        f"{found} found, but the certificate says {claimed}": found == claimed,
        "the file does not have the tensors of the run's network": shapes == _shapes(run),
    }
    finding = _finding("hash of the drawn network", found, must)
    yield finding
    if not finding.holds:
        return
    networks, number = (math.ceil(c.parameters.get(key, -1)) for key in ("networks", "network"))
    same = 0 <= number < networks <= 1000 and is_kept(drawn, number, laws, data)
    yield Finding("weights drawn by their key", same, f"network {number} of {networks}")
    ratio = arb(0)
    for name, s0, each in _gaussians(*laws):
        for w, mean, center, log in zip(drawn[name].ravel().tolist(), *each, strict=True):
            far, near = (arb(w) - arb(center)) * (-s0).exp(), (arb(w) - arb(mean)) / arb(log).exp()
            ratio += (far**2 - near**2) / 2 + s0 - arb(log)
    yield Finding("ln(dQ/dP)", bool(arb(c.kl) >= ratio), f"{c.kl:.4f} claimed, {ratio.str(12)}")
    yield _counted(c, drawn, run, data, units, body)
    yield _bound(c, c.risk_upper, ratio, c.spent(c.part) / max(1, networks))


def _fixed(
    c: _Claim,
    run: _Run,
    folder: Path,
    laws: Laws,
    data: Data,
    units: Array,
    body: Body | None,
) -> Iterator[Finding]:
    """Check the network at the prior's means: its errors and the tail of their number or mean."""
    for prior in (_tensors(folder / "prior.safetensors"), laws[0]):  # both, if learned again
        yield _counted(c, _means(prior, run), run, data, units, body)
    yield _bound(c, c.risk_upper, arb(0), c.spent(c.part))


def _guess(
    c: _Claim, run: _Run, prior: Weights, own: Data, body: Body | None
) -> tuple[float, Finding]:
    """Check that a guess of the risk is the prior's error on its own part of the data."""
    size = len(own[0])
    wrong = int(_errors(_means(prior, run), run, *own, body).sum()) if size else 0
    found = wrong / max(1, size)
    must = {
        "a data-free prior has no examples to guess the risk from": size > 0,
        f"{wrong} errors found, {c.parameters['guess']} claimed": c.parameters["guess"] == found,
    }
    detail = f"{wrong} of {size} on the prior's part"
    return found, _finding("guess of the risk", detail, must)


def _means(prior: Weights, run: _Run) -> Weights:
    """Return the weights of the network at a prior's means."""
    return {name: prior[f"{name}.prior_mean"].astype(float) for name in _shapes(run)}


def _counted(
    c: _Claim, weights: Weights, run: _Run, data: Data, units: Array, body: Body | None
) -> Finding:
    if run.network is not None and body is None:
        claimed = (
            f"the risk is {c.risk:.6f} and risk_upper {c.risk_upper:.6f}; --full counts errors"
        )
        return Finding("word", c.risk == c.risk_upper, claimed, word=True)
    errors = _errors(weights, run, *data, body)
    wrong = int(errors.sum())
    if run.data.source.group is None:
        holds = c.risk >= wrong / c.n and c.risk == c.risk_upper
    else:
        holds = Fraction(c.risk) >= _mean_of_means(errors, units) and c.risk == c.risk_upper
    detail = (
        f"{wrong} of {len(errors)}, risk {c.risk:.6f} and risk_upper {c.risk_upper:.6f} claimed"
    )
    return Finding(_COUNTED, holds, detail)


def _mean_of_means(errors: Array, units: Array) -> Fraction:
    """Return the mean over groups of the mean error within each."""
    index = np.unique(units, return_inverse=True)[1]
    wrong, sizes = np.bincount(index, errors).astype(int), np.bincount(index)
    means = [Fraction(a, b) for a, b in zip(wrong.tolist(), sizes.tolist(), strict=True)]
    return sum(means, Fraction(0)) / len(means)


_FOR_GROUPS = ("disintegrated", "disintegrated-fixed", "held-out-mean")
_OF_ONE_NETWORK = {  # whose weights are known
    "disintegrated": _drawn,
    "disintegrated-fixed": _drawn,
    "held-out": _fixed,
    "held-out-mean": _fixed,
}


def _errors(drawn: Weights, run: _Run, x: Array, y: Array, body: Body | None) -> Array:
    """Return where a network with known weights errs, (n,), in blocks; a tie is an error."""
    blocks = (slice(i, i + _BLOCK) for i in range(0, len(x), _BLOCK))
    return np.concatenate([_errors_of(drawn, run, x[b], y[b], body) for b in blocks])


def _errors_of(drawn: Weights, run: _Run, x: Array, y: Array, body: Body | None) -> Array:
    tensors = [drawn[name] for name in _shapes(run)]
    a = x.astype(float)
    if body is not None:
        a = body(drawn, a)
    else:
        for W, b in zip(tensors[:-2:2], tensors[1:-2:2], strict=True):
            a = _ACTIVATIONS[run.settings.activation](a @ W.T + b)
    z = a @ drawn["layer.weight"].T + drawn["layer.bias"]
    scores = np.hstack([-z, z]) / 2 if z.shape[1] == 1 else z
    own = np.take_along_axis(scores, y[:, None], 1)[:, 0]
    np.put_along_axis(scores, y[:, None], -np.inf, 1)
    wrong: Array = ~(own - scores.max(1) > _CLOSE)
    return wrong


def _measured(c: _Claim, run: _Run, laws: Laws, data: Data, body: Body | None) -> _Claim:
    """Make the draws again that the key gives, and put what they measure into the claim."""
    samples, step = None if c.draws is None else c.samples, c.quadrature_step or 1.0
    if run.network is None:
        activation = _ACTIVATIONS[run.settings.activation]
        found = measure(list(_shapes(run)), laws, activation, data, samples, step)
    elif body is None:
        raise ValueError("the network is a module, which must be built to make its draws again")
    else:
        found = measure_shared(list(_shapes(run)), laws, body, data, samples, step)
    risk = found.tandem if c.theorem.networks == 2 else found.mean
    within = None if c.within is None else found.within
    return c.model_copy(update={"risk": risk, "within": within})
