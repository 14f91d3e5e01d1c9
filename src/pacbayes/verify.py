"""Check a certificate without trusting whoever issued it.

Everything is derived anew from the files beside the certificate, in outward-rounded interval
arithmetic (Arb): hashes, the ledger, n, the KL of posterior and prior, the Monte-Carlo term and
the bound. No torch, and none of the library but its loaders of data; what is not checked without
`full` is that the sampled risk is what sampling gives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf, ndtr

from pacbayes.data import load

__all__ = ["Finding", "verify"]

_BITS = 128
_FALSE_ALARM = 1e-6  # of the new estimate of the risk
_NEEDED = (
    *("bound", "bound_name", "parameters", "delta", "ledger", "risk", "risk_upper", "monte_carlo"),
    *("samples", "draws", "variance", "within", "n", "kl", "provenance"),
)
Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    name: str
    holds: bool
    detail: str


def verify(path: Path, *, full: bool = False, samples: int = 10) -> Iterator[Finding]:
    """Check the certificate in `path` against the run folder it lies in.

    Args:
        full: also sample the risk anew, with `samples` fresh draws for each example.
    """
    ctx.prec = _BITS
    certificate, run = _read(path), _read(path.parent / "run.json")
    for name in ("prior", "posterior"):
        if not (path.parent / f"{name}.safetensors").is_file():
            raise ValueError(f"there is no {name}.safetensors beside {path}")
    if certificate.get("format") != 2:
        raise ValueError(f"{path} is not a certificate of format 2")
    if missing := [key for key in _NEEDED if key not in certificate]:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    yield from _files(certificate, run, path.parent)
    yield _ledger(certificate)
    data = load(
        run["data"]["source"]["name"],
        folder=_path(run["data"]["source"]["folder"]),
        test=_path(run["data"]["source"]["test"]),
        label=run["data"]["source"]["label"],
    )
    yield from _data(certificate, data.x_train, data.y_train)
    index, finding = _split(certificate, run, path.parent, len(data.x_train))
    yield finding
    x, y = data.x_train[index], data.y_train[index]
    yield Finding("n is its size", certificate["n"] == len(x), f"{len(x)} examples")
    prior = load_file(path.parent / "prior.safetensors")
    posterior = load_file(path.parent / "posterior.safetensors")
    yield _covered(prior, posterior)
    kl, finding = _kl(certificate, prior, posterior)
    yield finding
    yield _monte_carlo(certificate)
    yield _bound(certificate, kl)
    if full:
        weights = _distributions(prior, posterior)
        yield _sampled_anew(certificate, run["settings"], weights, x, y, samples)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"there is no {path}")
    try:
        record = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} is not a record")
    return record


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _files(c: dict[str, Any], run: dict[str, Any], folder: Path) -> Iterator[Finding]:
    hashes = c["provenance"]
    for name in ("prior", "posterior"):
        found = hashlib.sha256((folder / f"{name}.safetensors").read_bytes()).hexdigest()
        holds = found == hashes[f"{name}_sha256"]
        yield Finding(f"hash of the {name}", holds, found)
    same = run["prior_sha256"] == hashes["prior_sha256"]
    yield Finding("prior is that of the run", same, run["prior_sha256"])


def _ledger(c: dict[str, Any]) -> Finding:
    parts, sampled = c["ledger"], c["draws"] is not None
    spent = sum(Fraction(part) for part in parts.values())
    named = _theorem_part(c) in parts and ("monte-carlo" in parts) == sampled
    positive = all(0 < part < 1 for part in parts.values()) and 0 < c["delta"] < 1
    holds = named and positive and spent <= Fraction(c["delta"])
    return Finding("δ ledger", holds, f"{float(spent):g} of {c['delta']:g} in {len(parts)} parts")


def _theorem_part(c: dict[str, Any]) -> str:
    return "pac-bayes" if "pac-bayes" in c["ledger"] else f"pac-bayes, {c['bound_name']}"


def _data(c: dict[str, Any], x: NDArray[Any], y: NDArray[Any]) -> Iterator[Finding]:
    hasher = hashlib.sha256(np.ascontiguousarray(x, dtype="<f4").tobytes())
    hasher.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    found = hasher.hexdigest()
    yield Finding("hash of the data", found == c["provenance"]["data_sha256"], found)


def _split(
    c: dict[str, Any], run: dict[str, Any], folder: Path, count: int
) -> tuple[NDArray[Any], Finding]:
    """The bound set: all examples, or those recorded before the prior learned from the others."""
    claimed = c["provenance"].get("split_sha256")
    learned = run["settings"].get("prior_fraction", 0) > 0
    same = run["data"].get("split_sha256") == claimed
    if claimed is None:
        detail = f"all {count} examples, a data-free prior"
        return np.arange(count), Finding("bound set", same and not learned, detail)
    path = folder / "split.safetensors"
    if not path.is_file():
        raise ValueError(f"there is no {path}")
    index = load_file(path)["bound"]
    holds = (
        hashlib.sha256(path.read_bytes()).hexdigest() == claimed
        and same
        and learned
        and index.ndim == 1
        and bool((np.diff(index) > 0).all())  # each once
        and len(index) < count
        and int(index[0]) >= 0
        and int(index[-1]) < count
    )
    detail = f"{len(index)} of {count} examples, the prior learned from the others"
    return index if holds else np.arange(0), Finding("bound set", holds, detail)


def _covered(prior: Weights, posterior: Weights) -> Finding:
    """Every Gaussian has a prior and a mean of one shape, and nothing else is trained."""
    names = {k.removesuffix(".prior_mean") for k in prior if k.endswith(".prior_mean")}
    expected = {f"{n}.prior_mean" for n in names} | {f"{n}.prior_log_scale" for n in names}
    scales = {k for k in posterior if k.endswith(".log_scale")}
    holds = (
        set(prior) == expected
        and set(posterior) - scales == {f"{n}.mean" for n in names}
        and scales in (set(), {f"{n}.log_scale" for n in names})
        and all(posterior[f"{n}.mean"].shape == prior[f"{n}.prior_mean"].shape for n in names)
        and all(
            posterior[k].shape == posterior[k.replace("log_scale", "mean")].shape for k in scales
        )
        and all(np.isfinite(v).all() for v in (*prior.values(), *posterior.values()))
    )
    count = sum(v.size for v in posterior.values())
    return Finding("posterior and prior cover the same weights", holds, f"{count} numbers in Q")


def _kl(c: dict[str, Any], prior: Weights, posterior: Weights) -> tuple[arb, Finding]:
    r"""½ Σ [σ²/σ₀² − 1 − ln(σ²/σ₀²) + (μ − μ₀)²/σ₀²], enclosed."""
    total = arb(0)
    for key, center in prior.items():
        if not key.endswith(".prior_mean"):
            continue
        name = key.removesuffix(".prior_mean")
        s0 = arb(float(prior[f"{name}.prior_log_scale"]))
        mean = posterior.get(f"{name}.mean", center)
        shifts = arb(0)
        for a, b in zip(mean.ravel().tolist(), center.ravel().tolist(), strict=True):
            shifts += (arb(a) - arb(b)) ** 2
        total += shifts * (-2 * s0).exp()
        for value in posterior.get(f"{name}.log_scale", np.empty(0)).ravel().tolist():
            r = 2 * (arb(value) - s0)
            total += r.expm1() - r
    kl = total / 2
    detail = f"{c['kl']:.4f} claimed, {kl.str(12)} enclosed"
    return kl, Finding("KL(Q|P)", bool(arb(c["kl"]) >= kl), detail)


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


def _monte_carlo(c: dict[str, Any]) -> Finding:
    risk, upper, inequality = c["risk"], c["risk_upper"], c["monte_carlo"]
    detail = f"{risk:.6f} raised to {upper:.6f}"
    if c["draws"] is None:
        return Finding("exact risk", 0 <= risk <= upper <= 1 and c["samples"] == 0, detail)
    N = c["n"] * c["samples"]
    delta = arb(c["ledger"].get("monte-carlo", 1.0))
    if inequality == "kl-chernoff":
        holds = _beyond(risk, upper, (1 / delta).log() / arb(c["draws"]))
    elif inequality == "empirical-bernstein":
        log = (2 / delta).log()
        width = (2 * arb(c["variance"]) * log / N).sqrt() + 7 * log / (3 * (N - 1))
        holds = upper >= 1 or bool(arb(upper) >= arb(risk) + width)
    elif inequality == "stratified-bernstein":
        pairs = c["n"] * (c["samples"] // 2)
        log = (2 / delta).log()
        variance = arb(_inverse(2 * c["within"], log / pairs)) / 2
        L = log / N
        width = L / 3 + (L * L / 9 + 2 * variance * L).sqrt()
        holds = upper >= 1 or bool(arb(upper) >= arb(risk) + width)
    else:
        raise ValueError(f"unknown Monte-Carlo inequality {inequality!r}")
    holds = holds and 0 <= risk <= upper and 1 <= c["draws"] <= N
    return Finding("Monte-Carlo term", holds, f"{detail} by {inequality}")


def _bound(c: dict[str, Any], kl: arb) -> Finding:
    name, value, risk, n = c["bound_name"], c["bound"], c["risk_upper"], c["n"]
    delta = arb(c["ledger"].get(_theorem_part(c), 1.0))
    complexity = (kl + (2 * arb(n).sqrt() / delta).log()) / n
    if name in ("small-kl", "catoni-c"):  # the latter's minimum over C is the former
        holds = _beyond(risk, value, complexity)
    else:
        holds = value >= 1 or bool(arb(value) >= _formula(c, arb(risk), kl, complexity, delta))
    holds = holds and n >= 8 and 0 <= risk <= value
    return Finding(f"bound ({name})", holds, f"{value:.6f} at δ = {float(delta):g}")


def _formula(c: dict[str, Any], risk: arb, kl: arb, complexity: arb, delta: arb) -> arb:
    name, n = c["bound_name"], c["n"]
    value: arb
    if name == "mcallester":
        value = risk + (complexity / 2).sqrt()
    elif name == "quadratic":
        value = ((risk + complexity / 2).sqrt() + (complexity / 2).sqrt()) ** 2
    elif name == "thiemann":
        lam = 2 / ((2 * risk / complexity + 1).sqrt() + 1)
        value = (risk + complexity / lam) / (1 - lam / 2)
    elif name == "catoni":
        lam, alpha = arb(c["parameters"]["lambda"]), arb(c["parameters"]["alpha"])
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
        raise ValueError(f"unknown bound {name!r}")
    return value


def _distributions(prior: Weights, posterior: Weights) -> list[tuple[NDArray[Any], ...]]:
    """Layer by layer: means of weights and biases, then their variances."""
    names = sorted({k.rsplit(".", 2)[0] for k in posterior if k.startswith("body.")})
    names.sort(key=lambda name: int(name.rsplit(".", 1)[1]))
    layers = []
    for name in [*names, "layer"]:
        values = [posterior[f"{name}.{part}.mean"].astype(float) for part in ("weight", "bias")]
        for part in ("weight", "bias"):
            given = posterior.get(
                f"{name}.{part}.log_scale", prior[f"{name}.{part}.prior_log_scale"]
            )
            logs = np.broadcast_to(given.astype(float), posterior[f"{name}.{part}.mean"].shape)
            values.append(np.exp(2 * logs))
        layers.append(tuple(values))
    return layers


def _sampled_anew(
    c: dict[str, Any],
    settings: dict[str, Any],
    layers: list[tuple[NDArray[Any], ...]],
    x: NDArray[Any],
    y: NDArray[Any],
    T: int,
) -> Finding:
    rng, total = np.random.default_rng(), 0.0
    for start in range(0, len(x), 1000):
        a = np.repeat(x[start : start + 1000].astype(float), T, axis=0)
        labels = np.repeat(2.0 * y[start : start + 1000] - 1, T)
        for W, b, S, s in layers[:-1]:
            mean, deviation = a @ W.T + b, np.sqrt(a**2 @ S.T + s)
            if settings["activation"] == "sign":
                a = np.where(rng.random(mean.shape) < ndtr(mean / deviation), 1.0, -1.0)
            else:
                z = mean + deviation * rng.standard_normal(mean.shape)
                a = np.maximum(z, 0) if settings["activation"] == "relu" else 1 / (1 + np.exp(-z))
        W, b, S, s = layers[-1]
        u = (a @ W.T + b)[:, 0] / np.sqrt(a**2 @ S.T + s)[:, 0]
        total += float((0.5 * (1 - labels * erf(u / np.sqrt(2)))).sum())
    mean, N = total / (len(x) * T), len(x) * T
    lower = 1 - _inverse(1 - mean, arb(1 / _FALSE_ALARM).log() / N)
    detail = f"{mean:.6f} in {N} fresh draws, claimed at most {c['risk_upper']:.6f}"
    return Finding("risk sampled anew", lower <= c["risk_upper"], detail)
