"""Check the certificate of a kernel network against the folder it lies in.

Without torch and without the library's mathematics: features, kernel, directions, KL and risk are
computed again from the formulas that run.json names, the landmarks and the tensors of Q.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from flint import arb

from pacbayes.data import Dataset
from pacbayes.data.frame import Frame
from pacbayes.data.refitting import features as columns
from pacbayes.data.refitting import plain
from pacbayes.data.sample import NoSampleError, check_sample
from pacbayes.verify import formulas, records
from pacbayes.verify.enclosures import THEOREMS
from pacbayes.verify.findings import RESAMPLED, Finding, equal, finding, ledger, spent, word
from pacbayes.verify.records import KernelRun, NetworkClaim
from pacbayes.verify.redraw import Array, Layer, Weights, last_layer
from pacbayes.verify.risks import check_quadrature, same_risk, theorem_bound

__all__ = ["check_kernel", "largest_eigenvalue"]

_UNIT = 2.0**-53
_BLOCK, _ROWS = 128, 500  # numbers added in an unknown order, and examples at a time
_OFFERED = {THEOREMS[name].predictor for name in ("small-kl", "tandem")}  # of draws, not of one
_KINDS = {"landmarks": "float32", "matrix": "float64", "mean": "float64", "log_scale": "float64"}


def check_kernel(path: Path, *, full: bool, data: Path | None) -> Iterator[Finding]:
    """Check a certificate; the arguments are those of `verify`."""
    folder = path.parent
    c, run = records.read(path, NetworkClaim), records.read(folder / "run.json", KernelRun)
    q = records.read_tensors(folder / "posterior.safetensors")
    yield from _files(c, run, folder)
    yield _ledger(c)
    source = run.data.source.located(folder)
    loaded = (source.moved(data, None) if data else source).read()
    hashes = {"certificate": c.provenance.data_sha256, "run": run.data.train_sha256}
    yield equal("hash of the data", loaded.train_sha256, **hashes)
    rows = loaded.x_train if isinstance(loaded, Dataset) else loaded.train
    size = equal("size of the bound set", len(rows), certificate=c.n, run=run.data.n)
    names = equal("classes", loaded.classes, run=run.data.classes)
    fits = _fits(q, run)
    yield from (size, names, fits)
    if not (size.holds and names.holds and fits.holds):
        return  # the rest cannot be computed
    x = columns(rows, plain(rows)) if isinstance(rows, Frame) else rows
    shapes = _shapes(run, q, x)
    yield shapes
    yield _columns(c, run, folder, rows)
    if not shapes.holds:
        return
    yield _sample(run, rows, loaded.y_train)
    yield _assumptions(c, run)
    yield from map(word, _words(run))
    terms = formulas.parse_kernel(run.prior.kernel)
    largest = largest_eigenvalue(terms, q)
    must = {f"AGAᵀ has eigenvalues up to {largest!r}; at most 1 is allowed": largest <= 1}
    yield finding("directions", f"{len(q['matrix'])}, with AGAᵀ ≼ I shown", must)
    kl = _divergence(q)
    yield Finding("KL(Q|P)", bool(arb(c.kl) >= kl), f"{c.kl:.4f} claimed, {kl.str(12)}")
    classes = len(run.data.classes)
    if classes > 2:
        yield check_quadrature(c, classes)
    yield _exact(c)
    upper = c.risk_upper
    if full:
        upper, said = _measured(c, run, q, terms, x, loaded.y_train)
        yield said
    yield theorem_bound(c, upper, kl, spent(c.ledger, c.part))


def _files(c: NetworkClaim, run: KernelRun, folder: Path) -> Iterator[Finding]:
    """Check that certificate, posterior, formulas and run belong together."""
    about = c.theorem.predictor
    must = {
        f"{c.bound_name} is for one network, which a kernel network is not": about in _OFFERED,
        f"{c.noun} found, error in the theorem": c.noun == "error",
        f"{about} found, {c.predictor} in the certificate": c.predictor == about,
    }
    yield finding("predictor", c.predictor, must)
    prior = run.prior
    sha256 = formulas.formula_sha256(prior.features, prior.kernel, prior.shape)
    claimed = {"certificate": c.provenance.prior_sha256, "run": run.prior_sha256}
    yield equal("hash of the formulas", sha256, **claimed)
    path, own = folder / "posterior.safetensors", records.hash_of(folder / "run.json")
    found = records.hash_of(path)
    yield equal("hash of the posterior", found, certificate=c.provenance.posterior_sha256)
    same = own in records.read_header(path)
    must = {f"the posterior belongs to another run.json than {own}": same}
    yield finding("hash of run.json", own, must)


def _ledger(c: NetworkClaim) -> Finding:
    """Check that the parts fit into δ, of which nothing is for sampling."""
    others = [p for name, p in c.ledger.items() if name.startswith("other prior")]
    own = c.ledger.get(c.part, 0.0)
    must = {
        f"the part {c.part!r} is missing": c.part in c.ledger,
        "nothing is sampled, so no part may be for sampling": "monte-carlo" not in c.ledger,
        "the certificate of a class is not offered": c.class_name is None,
    }
    used = float(sum(map(Fraction, c.ledger.values())))
    detail = f"{used:g} of {c.delta:g} spent, {own:g} on the theorem, other priors: {len(others)}"
    return ledger(detail, c.ledger, c.delta, must)


def _fits(q: Weights, run: KernelRun) -> Finding:
    """Check names, types and shapes of the tensors of Q."""
    outputs = 1 if len(run.data.classes) == 2 else len(run.data.classes)
    must = {"it does not have the tensors of a kernel network": set(q) == set(_KINDS)}
    if all(must.values()):
        B, K = len(q["landmarks"]), len(q["log_scale"])
        shapes = {"matrix": (K, B), "mean": (K, outputs), "log_scale": (K,)}
        for name, kind in _KINDS.items():
            good = q[name].dtype == kind and bool(np.isfinite(q[name]).all())
            shape = shapes.get(name, q["landmarks"].shape[:1] + q["landmarks"].shape[-1:])
            must[f"{name} has another type, shape or value"] = good and q[name].shape == shape
        must["there are no directions"] = K > 0 and B > 0
    count = sum(v.size for v in q.values())
    return finding("posterior", f"{count} numbers", must)


def _shapes(run: KernelRun, q: Weights, x: Array) -> Finding:
    """Check that examples have the shape that the features take, and landmarks their number."""
    p, width = run.prior, math.prod(run.prior.shape)
    images = len(p.shape) == 3 and p.shape[0] in (1, 3)
    must = {f"examples of shape {p.shape} have no features {p.features}": width == x.shape[1]}
    must["images are needed"] = images or p.features == "columns"
    if all(must.values()):
        count = formulas.features(p.features, x[:1], p.shape).shape[1]
        own = q["landmarks"].shape[1]
        must[f"landmarks have {own} features, examples {count}"] = count == own
    return finding("features", f"{p.features} of examples of shape {p.shape}", must)


def _columns(c: NetworkClaim, run: KernelRun, folder: Path, rows: Array | Frame) -> Finding:
    """Check that columns are as they are in the data, also where predictions are made."""
    claimed, certified = run.data.features_sha256, c.provenance.features_sha256
    must = {"certificate and run.json name different columns": claimed == certified}
    if isinstance(rows, Frame):
        stored = records.read(folder / "features.json", records.Features).columns
        sha256 = records.hash_of(folder / "features.json")
        must["features.json is not the one that was certified"] = sha256 == claimed
        must["features.json is not the columns as they are"] = stored == plain(rows)
    else:
        must["features.json is for tables"] = claimed is None
    return finding("columns", "as they are in the data", must)


def _sample(run: KernelRun, rows: Array | Frame, y: Array) -> Finding:
    """Check that examples do not visibly depend on each other."""
    raw = rows.as_numbers() if isinstance(rows, Frame) else rows
    try:
        remarks = check_sample(raw, y, repeats=run.repeats)
    except NoSampleError as error:
        return Finding("examples", False, str(error))
    return Finding("examples", True, "; ".join(remarks) or "nothing speaks against independence")


def _assumptions(c: NetworkClaim, run: KernelRun) -> Finding:
    p, source = run.prior, run.data.source
    said = f"features {p.features} and kernel {p.kernel}, formulas of one example each "
    expected = {
        "data": source.name,
        "repeats": run.repeats,
        "preprocessing": said + f"(SHA-256 {run.prior_sha256})",
    }
    expected |= {"deduplicated": True} if source.deduplicate else {}
    given = {name: value for name, value in c.assumptions.items() if value is not None}
    return equal("assumptions", expected, certificate=given)


def _words(run: KernelRun) -> Iterator[str]:
    source = run.data.source
    yield f"The examples of {source.name} are independent, and new ones come from the same source."
    if source.deduplicate:
        yield "New examples do not repeat either: copies were removed (by deduplicate=True)."
    if run.repeats:
        yield "Examples that repeat are natural in these data (declared by repeats=True)."
    yield "Theorem, features and kernel were chosen in advance."
    yield "Nothing else was tried on the bound set than the ledger pays for."


def _divergence(q: Weights) -> arb:
    """Enclose ½(k − 1)·Σ(s² − 1 − ln s²) + ½Σ|m_c − m̄|²; for one score, k − 1 is 1 and m̄ is 0."""
    outputs = q["mean"].shape[1]
    scales = means = arb(0)
    for log in q["log_scale"].tolist():
        r = 2 * arb(log)
        scales += r.expm1() - r
    for row in q["mean"].tolist():
        centre = sum(map(arb, row), arb(0)) / outputs if outputs > 1 else arb(0)
        means += sum(((arb(m) - centre) ** 2 for m in row), arb(0))
    total: arb = max(1, outputs - 1) * scales + means
    return total / 2


def largest_eigenvalue(terms: tuple[formulas.Term, ...], q: Weights) -> float:
    """Return an upper bound of the largest eigenvalue of AGAᵀ, rounding included.

    Both factors of a product are whole multiples of a power of two, plus a small rest: products of
    the former are exact whatever the order of the sum, so only the rest has a rounding error. Then
    λ_max ≤ c + |M − cI|_F + errors, and kernel values that err by ε add |A|₂²·B·ε.
    """
    A, b = q["matrix"], q["landmarks"].astype(float)
    squares = np.square(b).sum(1)
    G = formulas.kernel_of(terms)(b @ b.T, squares[:, None], squares)
    P, in_P = _exactly(A, G)
    M, in_M = _exactly(P, A.T)
    gram, in_gram = _exactly(A, A.T)
    norm2 = float(np.abs(gram).sum(1).max()) * (1 + 1e-9) + in_gram  # of |A|₂²
    c = float(np.trace(M)) / len(M)
    epsilon = formulas.kernel_error(terms, b.shape[1], float(squares.max()) * (1 + 1e-9))
    total = c + _norm(M - c * np.eye(len(M))) + in_P * math.sqrt(norm2) + in_M
    return float(np.nextafter(total + norm2 * len(b) * epsilon, math.inf))


def _exactly(a: Array, b: Array) -> tuple[Array, float]:
    """Return a·b and a bound of its error's Frobenius norm."""
    count = a.shape[1]
    bits = (52 - max(1, count - 1).bit_length()) // 2
    pieces = []
    for matrix, axis in ((a, 1), (b, 0)):
        _, exponent = np.frexp(np.abs(matrix).max(axis, keepdims=True))
        unit = np.ldexp(1.0, exponent - bits)
        whole = np.round(matrix / unit) * unit
        pieces.append((whole, matrix - whole))
    (a0, a1), (b0, b1) = pieces
    found = a0 @ b0 + (a0 @ b1 + a1 @ b)
    small = _norm(a0) * _norm(b1) + _norm(a1) * _norm(b)
    return found, (count + 8) * _UNIT * small + 4 * _UNIT * (_norm(found) + small)


def _norm(a: Array) -> float:
    return float(np.sqrt(np.square(a).sum())) * (1 + 1e-9)


def _exact(c: NetworkClaim) -> Finding:
    """Check that the risk is claimed as exact, and not lowered."""
    must = {
        f"risk_upper is {c.risk_upper:.6f}, below the risk": c.mean_risk <= c.risk_upper,
        "samples must be 0, draws and monte_carlo null": not c.samples
        and c.draws is None
        and c.monte_carlo is None,
    }
    return finding("exact risk", f"{c.risk:.6f} raised to {c.risk_upper:.6f}", must)


def _measured(
    c: NetworkClaim,
    run: KernelRun,
    q: Weights,
    terms: tuple[formulas.Term, ...],
    x: Array,
    y: Array,
) -> tuple[float, Finding]:
    """Return the risk of these examples with its rounding and quadrature charged; compare it."""
    losses, charges = np.zeros(len(x)), np.zeros(len(x))
    look = _Look(terms, q)
    for start in range(0, len(x), _ROWS):
        part = slice(start, start + _ROWS)
        phi = formulas.features(run.prior.features, x[part], run.prior.shape)
        losses[part], charges[part] = look.losses(phi, y[part], c.quadrature_step or 0.2)
    networks = c.theorem.networks
    mean = math.fsum((losses**networks).tolist()) / len(x)
    charge = math.fsum(charges.tolist()) / len(x)
    upper = min(1.0, mean + networks * (charge + c.quadrature_error))
    detail = f"{mean:.8f} (claimed {c.risk:.8f}), {upper:.8f} with roundings"
    must = {
        f"{upper:.9f} found, only {c.risk_upper:.9f} claimed": upper <= c.risk_upper,
        f"risk {c.risk:.6f} claimed, {mean:.6f} found": same_risk(c, mean),
    }
    return upper, finding(RESAMPLED, detail, must)


class _Look:
    """Losses of the process at features, with a bound of what rounding changes in each."""

    def __init__(self, terms: tuple[formulas.Term, ...], q: Weights) -> None:
        self._k, self._terms, self._A = formulas.kernel_of(terms), terms, q["matrix"]
        self._b = q["landmarks"].astype(float)
        self._b2 = np.square(self._b).sum(1)
        variances = np.exp(2 * q["log_scale"])
        K, outputs = q["mean"].shape
        weight = np.concatenate([q["mean"].T, np.zeros((outputs, 1))], 1)
        spread = np.broadcast_to(np.append(variances, 1.0), (outputs, K + 1))
        self._layer = Layer(weight, np.zeros(outputs), spread, np.zeros(outputs))
        self._variances, self._means = variances, np.sqrt(np.square(q["mean"]).sum(0))
        self._frobenius = _norm(self._A)
        self._norm = math.sqrt(float(np.abs(self._A @ self._A.T).sum(1).max()) * 1.0001)

    def losses(self, phi: Array, y: Array, step: float) -> tuple[Array, Array]:
        """Return P(err) and its charge for every example."""
        a, B = phi.astype(float), len(self._b)
        squares = np.square(a).sum(1)
        k = self._k(a @ self._b.T, squares[:, None], self._b2)
        whole = self._k(squares, squares, squares)
        z = np.zeros((len(a), len(self._A)))
        for start in range(0, B, _BLOCK):
            z += k[:, start : start + _BLOCK] @ self._A[:, start : start + _BLOCK].T
        rest = np.maximum(whole - np.square(z).sum(1), 1e-300)  # above zero: 0/0 is no probability
        inputs = np.concatenate([z, np.sqrt(rest)[:, None]], 1)
        found = last_layer(self._layer, inputs, y, step)
        most = float(max(squares.max(), self._b2.max())) * (1 + 1e-9)
        epsilon = formulas.kernel_error(self._terms, a.shape[1], most)
        sums = (min(B, _BLOCK) - (-B // _BLOCK) + 1) * _UNIT * (1 + 1e-9)
        eta = sums * self._frobenius * np.sqrt(np.square(k).sum(1))
        eta += self._norm * math.sqrt(B) * epsilon
        return found, np.minimum(1.0, self._charge(z, whole, rest, eta, epsilon))

    def _charge(self, z: Array, whole: Array, rest: Array, eta: Array, epsilon: float) -> Array:
        """Return 0.399·Σ|m_c|η/√v + 0.242·Δv/v for each score, as φ(0) and φ(1) are smaller."""
        lengths, most = np.sqrt(np.square(z).sum(1)), max(1.0, float(self._variances.max()))
        v = np.square(z) @ self._variances + rest
        sums = (z.shape[1] + 20) * _UNIT
        wider = most * (2 * lengths * eta + eta**2 + sums * (lengths**2 + whole)) + epsilon
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.where(v > 2 * wider, v - wider, np.nan)
            shift = self._means.sum() * (eta + sums * lengths)
            total = 0.399 * shift / np.sqrt(least)
            total += 0.242 * len(self._means) * wider / least * (1 + wider / least)
        return np.asarray(np.nan_to_num(total, nan=1.0))
