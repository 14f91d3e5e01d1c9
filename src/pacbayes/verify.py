"""Check a certificate without trusting whoever issued it.

Everything the bound rests on is derived anew from the files beside the certificate, in
outward-rounded interval arithmetic (Arb): hashes, the ledger, n, the KL of posterior and prior, the
Monte-Carlo term and the bound. No torch, and none of the library but its loaders of data. What is
not checked without `full` is that the sampled risk is what sampling gives; never checked are the
numbers a certificate has for comparison (contributions, held_out, catoni, kl_by_part), that
the prior is older than the data and that nothing was drawn more often than is said, which no file
can show.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open

from pacbayes.choices import DRAWN, RANDOMISED, VOTE, Activation, CertificateBound, MonteCarlo
from pacbayes.data import load

__all__ = ["COUNTED", "Finding", "verify"]

COUNTED = "its errors"  # the finding that a risk was counted and not taken as claimed
_BITS = 128
_FALSE_ALARM = 1e-6  # of the new estimate of the risk
_ALPHA = 1.001  # Catoni's α, fixed once and for all
_CUT = 2 * math.sqrt(0.05) * (1 + 1e-6)  # a data-free prior's means lie within
_COVERED = {"first-order": VOTE, "tandem": VOTE, "disintegrated": DRAWN}  # any other: RANDOMISED
_CLOSE = 1e-9  # scores no further apart are a tie, which is an error
Weights = dict[str, NDArray[Any]]
Laws = tuple[Weights, Weights]  # prior, posterior
Data = tuple[NDArray[Any], NDArray[Any]]  # features, class indices
Probability = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, lt=1)]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class _Hashes(_Record):
    prior_sha256: str
    posterior_sha256: str
    data_sha256: str
    split_sha256: str | None = None
    drawn_sha256: str | None = None
    certificate_seed: int = Field(ge=0)


class _Claim(_Record):
    """What a certificate must say, and may."""

    format: Literal[2]
    predictor: str
    bound: Probability
    bound_name: CertificateBound
    parameters: dict[str, float]
    delta: Part
    ledger: dict[str, Part]
    risk: Probability
    risk_upper: Probability
    monte_carlo: MonteCarlo | None
    samples: int = Field(ge=0, le=100_000)
    draws: float | None = Field(ge=1)
    variance: float = Field(ge=0, le=1)
    within: float | None = Field(ge=0, le=0.5)
    quadrature_step: float | None = Field(None, gt=0, le=1)
    quadrature_error: Probability = 0.0
    n: int = Field(ge=8)
    kl: float
    provenance: _Hashes


class _Data(_Record):
    source: dict[Literal["name", "folder", "test", "label"], str | None]
    train_sha256: str
    n: int
    features: int = Field(ge=1)
    classes: tuple[str, ...] = Field(min_length=2)
    split_sha256: str | None = None


class _Settings(_Record):
    activation: Activation
    widths: tuple[int, ...]
    learned_scale: bool
    prior_scale: float = Field(gt=0)
    prior_scales: tuple[float, ...] = ()
    prior_fraction: float = Field(0.0, ge=0, lt=1)
    seed: int = Field(ge=0)


class _Run(_Record):
    """What is needed of run.json."""

    settings: _Settings
    data: _Data
    prior_sha256: str


Kind = TypeVar("Kind", _Claim, _Run)


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    name: str
    holds: bool
    detail: str


def verify(path: Path, *, full: bool = False, samples: int = 10) -> Iterator[Finding]:
    """Check the certificate in `path` against the run folder it lies in.

    With `full` also sample the risk anew, with `samples` fresh draws for each example. Raises
    ValueError where there is nothing to check: files are missing, damaged or malformed.
    """
    ctx.prec = _BITS
    folder = path.parent
    c, run = _read(path, _Claim), _read(folder / "run.json", _Run)
    laws = _tensors(folder / "prior.safetensors"), _tensors(folder / "posterior.safetensors")
    yield from _files(c, run, folder)
    yield _ledger(c, run.settings)
    source = run.data.source
    paths = {key: Path(place) for key in ("folder", "test") if (place := source.get(key))}
    data = load(source.get("name") or "", label=source.get("label"), **paths)
    yield _same_data(c, run, data.x_train, data.y_train)
    index, finding = _split(c, run, folder, len(data.x_train))
    yield finding
    x, y = data.x_train[index], data.y_train[index]
    sizes = f"{c.n} claimed, {len(x)} examples of {len(data.classes)} classes"
    same = data.classes == run.data.classes
    sized = Finding("n is its size", c.n == len(x) == run.data.n and same, sizes)
    checks = [sized, _covered(run, *laws)]
    yield from checks
    if not all(finding.holds for finding in checks):
        return
    if c.bound_name == "disintegrated":
        yield from _drawn(c, run, folder, laws, (x, y))
        return
    kl, finding = _kl(c, *laws)
    yield finding
    if len(data.classes) > 2:
        yield _quadrature(c, len(data.classes))
    yield _monte_carlo(c, run)
    yield _bound(c, kl)
    if full:
        yield _sampled_anew(c, run.settings.activation, laws, (x, y), samples)


def _read(path: Path, kind: type[Kind]) -> Kind:
    if not path.is_file():
        raise ValueError(f"there is no {path}")
    try:
        text = path.read_bytes()
        json.loads(text, object_pairs_hook=_no_key_twice)
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise ValueError(f"{path}: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _tensors(path: Path) -> Weights:
    if not path.is_file():
        raise ValueError(f"there is no {path}")
    try:
        with safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _files(c: _Claim, run: _Run, folder: Path) -> Iterator[Finding]:
    holds = c.predictor == _COVERED.get(c.bound_name, RANDOMISED)
    yield Finding("predictor covered", holds, c.predictor if holds else "not the theorem's")
    for name in ("prior", "posterior"):
        found = _sha256(folder / f"{name}.safetensors")
        claimed = getattr(c.provenance, f"{name}_sha256")
        yield Finding(f"hash of the {name}", found == claimed, found)
    same = run.prior_sha256 == c.provenance.prior_sha256
    yield Finding("prior is that of the run", same, run.prior_sha256)
    with safe_open(folder / "posterior.safetensors", "np") as file:
        header = (file.metadata() or {}).get("pacbayes", "")
    own = _sha256(folder / "run.json")
    yield Finding("posterior is that of the run", own in header, own)


def _ledger(c: _Claim, settings: _Settings) -> Finding:
    """Parts within δ, one for the theorem, as much again for each other prior that was tried."""
    spent = sum(Fraction(part) for part in c.ledger.values())
    named = _theorem_part(c) in c.ledger and ("monte-carlo" in c.ledger) == (c.draws is not None)
    scales = settings.prior_scales or (settings.prior_scale,)
    own = {name: part for name, part in c.ledger.items() if not name.startswith("other prior")}
    others = [
        c.ledger.get(f"other prior {i}, {name}", 0.0) >= part
        for i in range(1, len(scales))
        for name, part in own.items()
    ]
    paid = settings.prior_scale in scales and all(others)
    holds = named and paid and spent <= Fraction(c.delta)
    detail = f"{float(spent):g} of {c.delta:g} in {len(c.ledger)} parts, {len(scales)} priors"
    return Finding("δ ledger", holds, detail)


def _theorem_part(c: _Claim) -> str:
    return "pac-bayes" if "pac-bayes" in c.ledger else f"pac-bayes, {c.bound_name}"


def _same_data(c: _Claim, run: _Run, x: NDArray[Any], y: NDArray[Any]) -> Finding:
    hasher = hashlib.sha256(np.ascontiguousarray(x, dtype="<f4").tobytes())
    hasher.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    found = hasher.hexdigest()
    holds = found == c.provenance.data_sha256 == run.data.train_sha256
    return Finding("hash of the data", holds, found)


def _split(c: _Claim, run: _Run, folder: Path, count: int) -> tuple[NDArray[Any], Finding]:
    """The bound set: all examples, or those recorded before the prior learned from the others."""
    claimed, learned = c.provenance.split_sha256, run.settings.prior_fraction > 0
    same = run.data.split_sha256 == claimed
    if claimed is None:
        detail = f"all {count} examples, a data-free prior"
        return np.arange(count), Finding("bound set", same and not learned, detail)
    path = folder / "split.safetensors"
    index = _tensors(path).get("bound", np.empty(0))
    words = np.random.SeedSequence(run.settings.seed, spawn_key=(4,)).generate_state(1, np.uint64)
    order = np.random.default_rng(int(words[0])).permutation(count)
    drawn = np.sort(order[round(run.settings.prior_fraction * count) :])
    holds = _sha256(path) == claimed and same and learned and np.array_equal(index, drawn)
    detail = f"{len(index)} of {count} examples, drawn by seed; the prior learned from the others"
    return index if holds else np.arange(0), Finding("bound set", holds, detail)


def _covered(run: _Run, prior: Weights, posterior: Weights) -> Finding:
    """The run's network has these weights and no others, each with a prior of the scale stated."""
    k = len(run.data.classes)
    widths = (run.data.features, *run.settings.widths, 1 if k == 2 else k)
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (d, e) in enumerate(pairwise(widths)):
        layer = "layer" if i == len(widths) - 2 else f"body.layers.{i}"
        shapes |= {f"{layer}.weight": (e, d), f"{layer}.bias": (e,)}
    kinds = ("mean", "log_scale") if run.settings.learned_scale else ("mean",)
    expected_q = {f"{n}.{kind}": s for n, s in shapes.items() for kind in kinds}
    expected_p = {f"{n}.prior_mean": s for n, s in shapes.items()}
    expected_p |= {f"{n}.prior_log_scale": () for n in shapes}
    everything = [*prior.values(), *posterior.values()]
    scale = np.float32(math.log(run.settings.prior_scale))
    holds = (
        {k: v.shape for k, v in posterior.items()} == expected_q
        and {k: v.shape for k, v in prior.items()} == expected_p
        and all(v.dtype == np.float32 and np.isfinite(v).all() for v in everything)
        and all(prior[f"{n}.prior_log_scale"] == scale for n in shapes)
    )
    if holds and run.settings.prior_fraction == 0:
        holds = all(np.abs(prior[f"{n}.prior_mean"]).max() <= _CUT for n in shapes)
    count = sum(v.size for v in posterior.values())
    return Finding("posterior and prior are the network's", holds, f"{count} numbers in Q")


def _gaussians(prior: Weights, posterior: Weights) -> Iterator[tuple[str, arb, list[list[float]]]]:
    """Of every tensor of weights its name, ln σ₀, and μ, μ₀ and ln σ of each weight."""
    for name in (key.removesuffix(".mean") for key in posterior if key.endswith(".mean")):
        s0, means = prior[f"{name}.prior_log_scale"], posterior[f"{name}.mean"]
        logs = np.broadcast_to(posterior.get(f"{name}.log_scale", s0), means.shape)
        each = (means, prior[f"{name}.prior_mean"], logs)
        yield name, arb(float(s0)), [a.ravel().tolist() for a in each]


def _kl(c: _Claim, prior: Weights, posterior: Weights) -> tuple[arb, Finding]:
    r"""½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²], enclosed."""
    total = arb(0)
    for _, s0, each in _gaussians(prior, posterior):
        shifts = arb(0)
        for mean, center, log in zip(*each, strict=True):
            shifts += (arb(mean) - arb(center)) ** 2
            r = 2 * (arb(log) - s0)
            total += r.expm1() - r
        total += shifts * (-2 * s0).exp()
    kl = total / 2
    detail = f"{c.kl:.4f} claimed, {kl.str(12)} enclosed"
    return kl, Finding("KL(Q|P)", bool(arb(c.kl) >= kl), detail)


def _kl_of_coins(q: arb, p: arb) -> arb:
    value = arb(0)
    for a, b in ((q, p), (1 - q, 1 - p)):
        if a != 0:
            value += a * (a / b).log()
    return value


def _beyond(q: float, p: float, c: arb) -> bool:
    """Whether p is certainly at or above kl⁻¹(q, c)."""
    return p >= 1 or (0 <= q <= p and bool(_kl_of_coins(arb(q), arb(p)) >= c))


def _inverse(q: float, c: arb) -> float:
    """A number certainly at or above kl⁻¹(q, c), and hardly above it."""
    low, high = q, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if _beyond(q, middle, c) else (middle, high)
    return high


def _quadrature(c: _Claim, classes: int) -> Finding:
    """What the trapezoidal rule for P(class wins) may err by, as networks.quadrature proves it."""
    H, pi, root, best = arb(c.quadrature_step or 1.0), arb.pi(), arb(2).sqrt(), arb(1)
    for i in range(1, 40):
        a = arb(i) / 10
        E = (pi / 2).sqrt() * (a / root).erfi()
        M = 1 - (1 / E / root).erfc() / 2 + (-1 / (2 * E * E)).exp() / (2 * pi).sqrt() * E
        value = 2 * (a * a / 2).exp() * M ** (classes - 1) / (2 * pi * a / H).expm1()
        best = value if value < best else best
    best += arb("2.2") * (arb(7) / root).erfc() / 2
    holds = c.quadrature_step is not None and bool(arb(c.quadrature_error) >= best)
    return Finding("quadrature", holds, f"{c.quadrature_error:.2g} claimed, {best.str(5)} proved")


def _monte_carlo(c: _Claim, run: _Run) -> Finding:
    pairs = c.bound_name == "tandem"
    risk, upper = min(1.0, c.risk + (1 + pairs) * c.quadrature_error), c.risk_upper
    inequality = c.monte_carlo
    detail = f"{risk:.6f} raised to {upper:.6f}"
    if c.draws is None:
        summable = run.settings.activation == "sign" or not run.settings.widths
        holds = summable and risk <= upper and c.samples == 0 and inequality is None
        return Finding("exact risk", holds, detail)
    N = c.n * (c.samples // 2 if pairs else c.samples)
    delta = arb(c.ledger.get("monte-carlo", 1e-300))
    if inequality == "kl-chernoff":
        holds = _beyond(risk, upper, (1 / delta).log() / arb(c.draws))
    else:
        log, width = (2 / delta).log(), arb(1)
        if inequality == "empirical-bernstein":
            width = (2 * arb(c.variance) * log / N).sqrt() + 7 * log / (3 * (N - 1))
        elif inequality == "stratified-bernstein" and c.within is not None:
            variance = arb(_inverse(2 * c.within, log / (c.n * (c.samples // 2)))) / 2
            width = log / N / 3 + ((log / N) ** 2 / 9 + 2 * variance * log / N).sqrt()
        holds = upper >= 1 or bool(arb(upper) >= arb(risk) + width)
    holds = holds and risk <= upper and c.draws == N
    return Finding("Monte-Carlo term", holds, f"{detail} by {inequality}")


def _bound(c: _Claim, kl: arb) -> Finding:
    name, value, risk, n = c.bound_name, c.bound, c.risk_upper, c.n
    delta = arb(c.ledger.get(_theorem_part(c), 1e-300))
    kl = 2 * kl if name == "tandem" else kl
    complexity = (kl + (2 * arb(n).sqrt() / delta).log()) / n
    if name in ("small-kl", "catoni-c"):  # the latter's minimum over C is the former
        holds = _beyond(risk, value, complexity)
    elif name in ("first-order", "tandem"):
        holds = value >= 1 or _beyond(risk, value / (2 if name == "first-order" else 4), complexity)
    else:
        holds = value >= 1 or bool(arb(value) >= _formula(c, arb(risk), kl, complexity, delta))
    holds = holds and risk <= value
    return Finding(f"bound ({name})", holds, f"{value:.6f} at δ = {float(delta):g}")


def _formula(c: _Claim, risk: arb, kl: arb, complexity: arb, delta: arb) -> arb:
    name, n = c.bound_name, c.n
    value: arb
    if name == "mcallester":
        value = risk + (complexity / 2).sqrt()
    elif name == "quadratic":
        value = ((risk + complexity / 2).sqrt() + (complexity / 2).sqrt()) ** 2
    elif name == "thiemann":
        lam = 2 / ((2 * risk / complexity + 1).sqrt() + 1)
        value = (risk + complexity / lam) / (1 - lam / 2)
    elif name == "catoni":
        if c.parameters.get("alpha") != _ALPHA or not c.parameters.get("lambda", 0.0) > 1:
            return arb(1)
        lam, alpha = arb(c.parameters["lambda"]), arb(_ALPHA)
        logs = 2 * (2 + lam.log() / alpha.log()).log()
        t = risk + alpha / lam * (kl - delta.log() + logs)
        value = (-lam / n * t).expm1() / (-lam / n).expm1()
    elif name == "unexpected-bernstein":
        k = max(1, int(np.ceil(np.log2(0.5 * np.sqrt(n / -np.log(float(delta)))))))
        grid = [arb(2) ** -i for i in range(1, k + 1)]
        price = (kl + (k / delta).log()) / n
        values = [risk + ((-(1 - g).log() - g) * risk + price) / g for g in grid]
        value = min(values, key=lambda v: float(v.upper()))
    else:
        return arb(1)
    return value


def _drawn(c: _Claim, run: _Run, folder: Path, laws: Laws, data: Data) -> Iterator[Finding]:
    """A kept network: ln(dQ/dP) at its weights, its errors, and the disintegrated bound."""
    path = folder / "drawn.safetensors"
    drawn, found, ratio = _tensors(path), _sha256(path), arb(0)
    shapes = {k[:-5]: v.shape for k, v in laws[1].items() if k.endswith(".mean")}
    fits = {k: w.shape for k, w in drawn.items()} == shapes
    holds = fits and found == c.provenance.drawn_sha256
    yield Finding("hash of the drawn network", holds, found)
    if not holds:
        return
    networks, number = (int(c.parameters.get(key, -1)) for key in ("networks", "network"))
    same = 0 <= number < networks <= 1000 and _drawn_by_seed(c, number, drawn, laws)
    yield Finding("weights are the seed's draw from Q", same, f"network {number} of {networks}")
    for name, s0, each in _gaussians(*laws):
        for w, mean, center, log in zip(drawn[name].ravel().tolist(), *each, strict=True):
            far, near = (arb(w) - arb(center)) * (-s0).exp(), (arb(w) - arb(mean)) / arb(log).exp()
            ratio += (far**2 - near**2) / 2 + s0 - arb(log)
    yield Finding("ln(dQ/dP)", bool(arb(c.kl) >= ratio), f"{c.kl:.4f} claimed, {ratio.str(12)}")
    variances = {name: np.zeros_like(w) for name, w in drawn.items()}
    wrong = int(_wrong(_layers(drawn, variances), run.settings.activation, *data).sum())
    holds = Fraction(c.risk) >= Fraction(wrong / c.n) and c.risk == c.risk_upper
    yield Finding(COUNTED, holds, f"{wrong} of {c.n}, {c.risk:.6f} claimed")
    delta = arb(c.ledger.get("pac-bayes", 1e-300))
    total = ratio + (2 * arb(c.n).sqrt() * max(1, networks) / delta).log()
    holds = networks >= 1 and _beyond(c.risk, c.bound, (total if total > 0 else arb(0)) / c.n)
    yield Finding("bound (disintegrated)", holds, f"{c.bound:.6f}, best of {networks} drawn")


def _drawn_by_seed(c: _Claim, number: int, drawn: Weights, laws: Laws) -> bool:
    """Whether the weights are μ + σz with the numbers z that the recorded seed gives."""
    sequence = np.random.SeedSequence(c.provenance.certificate_seed, spawn_key=(6,))
    rng = np.random.default_rng(int(sequence.generate_state(1, np.uint64)[0]))
    tensors = sorted(_gaussians(*laws), key=lambda item: item[0])
    for _ in range(number + 1):
        noise = {name: rng.standard_normal(drawn[name].size) for name, *_ in tensors}
    wanted = {n: np.array(m) + np.exp(logs) * noise[n] for n, _, (m, _, logs) in tensors}
    pairs = ((drawn[name].ravel(), w) for name, w in wanted.items())
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs)


def _layers(means: Weights, variances: Weights) -> list[list[NDArray[Any]]]:
    """Means of weights and biases, then their variances, layer by layer, the last at the end."""
    names = {name.rpartition(".")[0] for name in means}
    order = sorted(names, key=lambda name: (name == "layer", len(name), name))
    pair = ("weight", "bias")
    return [[t[f"{name}.{part}"] for t in (means, variances) for part in pair] for name in order]


def _wrong(
    layers: list[list[NDArray[Any]]], activation: Activation, x: NDArray[Any], y: NDArray[Any]
) -> NDArray[np.bool_]:
    """On which examples a network errs, drawn anew for each; a tie is an error."""
    a, rng = x.astype(float), np.random.default_rng()
    for i, (W, b, S, s) in enumerate(layers):
        z = a @ W.T + b
        z += np.sqrt(a**2 @ S.T + s) * rng.standard_normal(z.shape)
        if i == len(layers) - 1:
            break
        if activation == "sign":
            a = np.where(z >= 0, 1.0, -1.0)
        else:
            a = np.maximum(z, 0) if activation == "relu" else 1 / (1 + np.exp(-z))
    z = np.hstack([-z, z]) / 2 if z.shape[1] == 1 else z
    own = np.take_along_axis(z, y[:, None], 1)[:, 0]
    np.put_along_axis(z, y[:, None], -np.inf, 1)
    wrong: NDArray[np.bool_] = ~(own - z.max(1) > _CLOSE)
    return wrong


@np.errstate(all="ignore")  # what is not a number is an error in the end
def _sampled_anew(c: _Claim, activation: Activation, laws: Laws, data: Data, T: int) -> Finding:
    """The risk of networks drawn anew for every example, which must not be far above the claim."""
    means, variances = {}, {}
    for name, _, (_, _, logs) in _gaussians(*laws):
        means[name] = laws[1][f"{name}.mean"].astype(float)
        variances[name] = np.exp(2 * np.reshape(logs, means[name].shape))
    layers, (x, y) = _layers(means, variances), data
    blocks = [slice(i, i + 5000) for i in range(0, len(x), 5000)] * T
    N, total = len(x) * T, 0
    for b in blocks:
        wrong = _wrong(layers, activation, x[b], y[b])
        if c.bound_name == "tandem":  # two networks for each example, that both err
            wrong = wrong & _wrong(layers, activation, x[b], y[b])
        total += int(wrong.sum())
    mean = total / N
    lower = 1 - _inverse(1 - mean, arb(1 / _FALSE_ALARM).log() / N)
    detail = f"{mean:.6f} in {N} fresh draws, claimed at most {c.risk_upper:.6f}"
    return Finding("risk sampled anew", lower <= c.risk_upper, detail)
