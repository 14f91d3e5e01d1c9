"""Check the certificate of a network against the run folder it lies in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from pacbayes.data import Dataset
from pacbayes.data.frame import Frame
from pacbayes.data.refitting import features, plain, refit
from pacbayes.data.sample import NoSampleError, check_sample, check_split
from pacbayes.verify import records
from pacbayes.verify.bases import basis_of, check_basis
from pacbayes.verify.findings import Finding, equal, finding, ledger, word, words
from pacbayes.verify.records import Evidence, Features, NetworkClaim, NetworkRun
from pacbayes.verify.redraw import Array, Body, Data, Shapes, Weights, is_data_free, shuffled
from pacbayes.verify.risks import check_guess, check_risk

__all__ = ["check_network"]

_FITTED = "features.json, fitted to the prior's part alone"
_FOR_GROUPS = ("disintegrated", "disintegrated-fixed", "held-out-mean")
Rows = Array | Frame  # examples as they came


def check_network(
    path: Path, full: bool, data: Path | None, prior: Weights | None, body: Body | None
) -> Iterator[Finding]:
    """Check a certificate; the arguments are those of `verify`."""
    folder = path.parent
    c, run = records.read(path, NetworkClaim), records.read(folder / "run.json", NetworkRun)
    laws = (
        records.read_tensors(folder / "prior.safetensors"),
        records.read_tensors(folder / "posterior.safetensors"),
    )
    yield from _files(c, run, folder)
    yield _ledger(c, run)
    rows, y, classes, found, shape = _load(run, folder, data)
    claimed = c.provenance.data_sha256
    yield equal("hash of the data", found, certificate=claimed, run=run.data.train_sha256)
    units = _units(run, rows)
    index, split = _split(c, run, folder, units)
    counted, sizes = _counted_examples(c, run, y, units, index)
    names = equal("classes", classes, run=run.data.classes)
    weights = _network(run, *laws)
    yield from (split, sizes, names, weights)
    if not (sizes.holds and names.holds and weights.holds):
        return  # the rest cannot be computed
    x, fitted, same = _features(c, run, folder, rows, index)
    yield same
    if x.shape[1] != run.data.features:
        return
    yield _sample(run, rows, y, index)
    yield from _assumptions(c, run, laws[0], relearned=prior is not None, fitted=fitted)
    laws = laws[0] if prior is None else prior, laws[1]
    basis = basis_of(run, laws[1])
    if basis is not None:
        yield (turned := check_basis(run, basis, laws[1], shape))
        if not turned.holds:
            return
        laws = basis.prior(laws[0]), basis.posterior(laws[1])
    e = Evidence(c, run, folder, laws, _rows(x, y, counted), units[counted], body, basis)
    if "guess" in c.parameters and run.network is not None and body is None:
        yield word("the guess of the risk is the prior's error on its part")
    elif "guess" in c.parameters:
        own = np.setdiff1d(np.arange(len(x)), index)
        guess, said = check_guess(e, (x[own], y[own]))
        yield said if prior is None else replace(said, holds=True)  # the bound decides
        c = c.model_copy(update={"parameters": {**c.parameters, "guess": guess}})
        e = e._replace(claim=c)
    if run.data.source.group is not None:
        yield (of_groups := _of_groups(c))
        if not of_groups.holds:
            return
    yield from check_risk(e, full=full, relearned=prior is not None)


def _rows(x: Array, y: Array, index: Array) -> Data:
    """Return some examples; all of them are not copied."""
    return (x, y) if len(index) == len(x) else (x[index], y[index])


def _load(
    run: NetworkRun, folder: Path, moved: Path | None
) -> tuple[Rows, Array, tuple[str, ...], str, tuple[int, ...] | None]:
    """Return training examples, class indices, the classes' names, a hash, and an image's shape."""
    source = run.data.source.located(folder)
    loaded = (replace(source, test=None).moved(moved, None) if moved else source).read()
    same = loaded.y_train, loaded.classes, loaded.train_sha256
    if isinstance(loaded, Dataset):
        return loaded.x_train, *same, loaded.shape
    return loaded.train, *same, None


def _units(run: NetworkRun, rows: Rows) -> Array:
    """Return what is independent, for each example: itself, or its group by number."""
    if run.data.source.group is None or not isinstance(rows, Frame) or rows.group is None:
        return np.arange(len(rows))
    return np.unique(rows.group.values, return_inverse=True)[1]


def _of_groups(c: NetworkClaim) -> Finding:
    """Check that the theorem holds for losses in [0, 1], as mean errors of groups are."""
    fits = c.class_name is None and c.bound_name in _FOR_GROUPS
    return finding("groups", f"{c.n} mean errors", {f"{c.bound_name} is not for groups": fits})


def _features(
    c: NetworkClaim, run: NetworkRun, folder: Path, rows: Rows, index: Array
) -> tuple[Array, bool, Finding]:
    """Return the features of all examples, and whether they were fitted to the prior's rows.

    Those of a table are computed from its rows alone, and features.json must say the same.
    """
    claimed, certified = run.data.features_sha256, c.provenance.features_sha256
    must = {"certificate and run.json name different features": claimed == certified}
    if not isinstance(rows, Frame):
        must["features.json is for tables"] = claimed is None
        return rows, False, finding("features", "as they are in the data", must)
    codes, own = plain(rows), np.setdiff1d(np.arange(len(rows)), index)
    detail, fitted = "the columns as they are", False
    if claimed is not None:
        stored = records.read(folder / "features.json", Features).columns
        fitted = stored != codes and len(own) > 0
        codes = refit(rows, own) if fitted else codes
        sha256 = records.hash_of(folder / "features.json")
        must["features.json is not the one that was certified"] = sha256 == claimed
        must["features.json is not what the prior's rows determine"] = stored == codes
        detail = f"constants fitted to the prior's {len(own)} rows again" if fitted else detail
    return features(rows, codes), fitted, finding("features", detail, must)


def _files(c: NetworkClaim, run: NetworkRun, folder: Path) -> Iterator[Finding]:
    """Check that certificate, prior, posterior and run belong together."""
    yield equal("predictor", c.predictor, theorem=c.theorem.predictor)
    found, claimed = records.hash_of(folder / "prior.safetensors"), c.provenance.prior_sha256
    yield equal("hash of the prior", found, certificate=claimed, run=run.prior_sha256)
    path, own = folder / "posterior.safetensors", records.hash_of(folder / "run.json")
    yield equal(
        "hash of the posterior", records.hash_of(path), certificate=c.provenance.posterior_sha256
    )
    must = {
        f"the posterior belongs to another run.json than {own}": own in records.read_header(path)
    }
    yield finding("hash of run.json", own, must)


def _ledger(c: NetworkClaim, run: NetworkRun) -> Finding:
    """Check that the parts fit into δ and pay for theorem, sampling, priors, seed and classes."""
    settings, unspent = run.settings, ("other seeds", "other classes")
    used = sum(Fraction(part) for name, part in c.ledger.items() if name not in unspent)
    shares = 1 if settings.prior_fraction else (settings.seed + 1) * (settings.seed + 2)
    shares *= 1 if c.class_name is None else len(run.data.classes)
    scales = settings.prior_scales or (settings.prior_scale,)
    own = {k: part for k, part in c.ledger.items() if not k.startswith("other ")}
    others = {f"other prior {i}, {name}": own[name] for i in range(1, len(scales)) for name in own}
    sampled = ("monte-carlo" in c.ledger) == (c.draws is not None)
    paid = all(c.ledger.get(name, 0.0) >= part for name, part in others.items())
    must = {
        f"this seed and class may spend δ/{shares}": used * shares <= Fraction(c.delta),
        f"the part {c.part!r} is missing": c.part in c.ledger,
        "'monte-carlo' must be a part if the risk was sampled, and only then": sampled,
        f"the prior scale must be one of {scales}": settings.prior_scale in scales,
        f"each of {len(scales)} priors must have the same parts": paid,
    }
    detail = f"{float(used):g} of {c.delta:g} spent, parts: {len(c.ledger)}, priors: {len(scales)}"
    return ledger(detail, c.ledger, c.delta, must)


def _sample(run: NetworkRun, rows: Rows, y: Array, index: Array) -> Finding:
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


def _assumptions(
    c: NetworkClaim, run: NetworkRun, prior: Weights, *, relearned: bool, fitted: bool
) -> Iterator[Finding]:
    """Check that the assumptions are those of the run, and list them as the issuer's word."""
    s, learned = run.settings, run.settings.prior_fraction > 0
    seed = {"split_seed" if learned else "prior_seed": s.seed}
    source = run.data.source
    removed = {"deduplicated": True} if source.deduplicate else {}
    seen = {"preprocessing": _FITTED} if fitted else {}
    seen |= {} if source.group is None else {"group": source.group}
    seen |= _of_module(run, prior)
    expected = {"data": source.name, "repeats": s.repeats, **seed, **removed, **seen}
    given = {name: value for name, value in c.assumptions.items() if value is not None}
    yield equal("assumptions", expected, certificate=given)
    yield from map(word, words(run, seen, relearned=relearned))


def _of_module(run: NetworkRun, prior: Weights) -> dict[str, str]:
    """Return what a certificate must say of a module's code and of its tensors outside Q."""
    if (network := run.network) is None:
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


def _split(c: NetworkClaim, run: NetworkRun, folder: Path, units: Array) -> tuple[Array, Finding]:
    """Return the bound set: all examples, or those that the prior did not learn from.

    Whole units are drawn: examples, or groups of them.
    """
    total, count = len(units), int(units.max()) + 1
    s, claimed, learned = run.settings, c.provenance.split_sha256, run.settings.prior_fraction > 0
    same = {"certificate and run.json name different splits": run.data.split_sha256 == claimed}
    if claimed is None:
        must = same | {"the prior learned from data, so a split is needed": not learned}
        return np.arange(total), finding("bound set", f"all {total} examples", must)
    order = shuffled(s.seed, count)
    drawn = np.flatnonzero(np.isin(units, order[round(s.prior_fraction * count) :]))
    path = folder / "split.safetensors"
    found = (
        records.read_tensors(path).get("bound", np.empty(0)).tobytes()
    )  # of int64, or not the same
    must = same | {
        "split.safetensors is not the one that was certified": records.hash_of(path) == claimed,
        "the prior is data-free, so a split is not allowed": learned,
        f"split.safetensors is not what seed {s.seed} draws": found == drawn.tobytes(),
        "the prior's part is empty": len(drawn) < total,
    }
    detail = f"{len(drawn)} of {total} examples, drawn by seed; the prior learned from the others"
    same_set = finding("bound set", detail, must)
    return drawn if same_set.holds else np.arange(0), same_set


def _counted_examples(
    c: NetworkClaim, run: NetworkRun, y: Array, units: Array, index: Array
) -> tuple[Array, Finding]:
    """Return the examples that the certificate is about: the bound set, or one class of it."""
    if c.class_name is None:
        count = len(np.unique(units[index]))
        return index, equal("size of the bound set", count, certificate=c.n, run=run.data.n)
    names = run.data.classes
    known = c.class_name in names
    counted = index[y[index] == names.index(c.class_name)] if known else index[:0]
    must = {
        f"class {c.class_name} is not among {', '.join(names)}": known,
        f"{len(counted)} examples found, {c.n} in the certificate": len(counted) == c.n,
        f"{len(index)} in the bound set, {run.data.n} in the run": len(index) == run.data.n,
    }
    return counted, finding(f"examples of class {c.class_name}", str(len(counted)), must)


def _network(run: NetworkRun, prior: Weights, posterior: Weights) -> Finding:
    """Check that Q has the weights of the run's network and no others, all covered by the prior."""
    layers = run.shapes
    kinds = ("mean", "log_scale") if run.settings.learned_scale else ("mean",)
    q = {f"{name}.{kind}": shape for name, shape in layers.items() for kind in kinds}
    if run.in_basis:
        name, (_, inputs) = next(iter(layers.items()))
        q[f"{name}.reflections"] = (inputs, inputs)
    p = {f"{name}.prior_mean": shape for name, shape in layers.items()}
    p |= {f"{name}.prior_log_scale": () for name in layers}
    frozen = {} if run.network is None else run.network.frozen
    p |= frozen
    must = {
        "the posterior does not have the tensors of the run's network": _fits(posterior, q),
        "the prior does not have the tensors of the run's network": _fits(prior, p, frozen),
    }
    if all(must.values()):
        scale = np.float32(math.log(run.settings.prior_scale))
        stated = all(prior[f"{name}.prior_log_scale"] == scale for name in layers)
        must["the prior's scales are not those of the settings"] = stated
        drawn = run.settings.prior_fraction > 0 or _data_free(run, prior)
        must[f"the prior is not what seed {run.settings.seed} draws"] = drawn
    count = sum(v.size for v in posterior.values())
    return finding("weights of the network", f"{count} numbers in Q", must)


def _data_free(run: NetworkRun, prior: Weights) -> bool:
    """Return whether the means of a prior are those of its seed, and norms at one and zero."""
    kinds = dict.fromkeys(run.shapes, "normal")
    kinds |= {} if run.network is None else {w.name: w.kind for w in run.network.weights}
    means = {name: prior[f"{name}.prior_mean"].ravel() for name in kinds}
    fixed = {"one": 1.0, "zero": 0.0}
    still = all((means[name] == fixed[k]).all() for name, k in kinds.items() if k in fixed)
    drawn = [means[name] for name, kind in kinds.items() if kind == "normal"]
    return still and is_data_free(run.settings.seed, drawn)


def _fits(weights: Weights, expected: Shapes, frozen: Collection[str] = ()) -> bool:
    """Return whether the tensors have the expected shapes and consist of finite float32 numbers.

    Those that are frozen may be of any type.
    """
    exact = all(w.dtype == np.float32 for name, w in weights.items() if name not in frozen)
    finite = exact and all(np.isfinite(w).all() for w in weights.values())
    return finite and {name: w.shape for name, w in weights.items()} == expected
