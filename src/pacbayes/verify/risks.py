"""Check the risk of a network: exact, sampled, or counted if there is one, of known weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from flint import arb

from pacbayes.verify import enclosures, redraw
from pacbayes.verify.findings import COUNTED, RESAMPLED, Finding, bound, finding, spent
from pacbayes.verify.records import Evidence, NetworkClaim, NetworkRun, hash_of, read_tensors

__all__ = ["check_guess", "check_quadrature", "check_risk", "same_risk", "theorem_bound"]

_TIED = 1e-9  # scores that differ by less are a tie, and a tie is an error
_SAME = 1e-4  # other processors round other units to the other sign
_BLOCK = 10_000  # examples whose errors are counted at a time


def check_risk(e: Evidence, *, full: bool, relearned: bool) -> Iterator[Finding]:
    """Check risk, KL and bound; if the prior was relearned, the bound decides, not the KL."""
    check = _OF_ONE_NETWORK.get(e.claim.bound_name)
    most = len(e.run.data.classes) - 1 if check else 1
    if e.claim.labels > most:
        yield Finding("loss", False, f"{e.claim.noun} does not suit {e.claim.bound_name}")
    else:
        yield from _of_all(e, full=full, relearned=relearned) if check is None else check(e)


def _of_all(e: Evidence, *, full: bool, relearned: bool) -> Iterator[Finding]:
    """Check a bound that holds for all networks: the KL, the risk and the theorem."""
    c, classes, kl = e.claim, len(e.run.data.classes), enclosures.divergence(e.laws)
    kl += 0 if e.basis is None else e.basis.rounding(e.laws)
    holds = relearned or bool(arb(c.kl) >= kl)
    yield Finding("KL(Q|P)", holds, f"{c.kl:.4f} claimed, {kl.str(12)}")
    if classes > 2:
        yield check_quadrature(c, classes)
    check = _check_exact_risk if c.draws is None else _check_monte_carlo
    measured = _measured(e) if full else c
    upper, said = check(measured, e.run)
    if full:
        must = {
            said.detail: said.holds,
            f"risk {c.risk:.6f} claimed, {measured.risk:.6f} found": same_risk(c, measured.risk),
        }
        said = finding(RESAMPLED, said.detail, must)
    yield said
    yield theorem_bound(c, upper if full else c.risk_upper, kl, spent(c.ledger, c.part))


def same_risk(c: NetworkClaim, found: float) -> bool:
    """Return whether a claimed risk, which people read beside the bound, is the one found."""
    return abs(c.risk - found) <= _SAME


def check_quadrature(c: NetworkClaim, classes: int) -> Finding:
    """Check the claimed error of the integral over more than two classes."""
    best = enclosures.quadrature_error(classes, c.quadrature_step or 1.0)
    holds = c.quadrature_step is not None and bool(arb(c.quadrature_error) >= best)
    return Finding("quadrature", holds, f"{c.quadrature_error:.2g} claimed, {best.str(5)} proved")


def _check_exact_risk(c: NetworkClaim, run: NetworkRun) -> tuple[float, Finding]:
    """Check that a network has an exact risk; return the least that the bound must rest on."""
    risk, upper, s = c.mean_risk, c.risk_upper, run.settings
    summable = s.activation == "sign" or not s.widths
    if run.network is not None:
        summable = not run.network.sampled
    must = {
        "a network whose hidden units are drawn has no exact risk": summable,
        f"risk_upper is {upper:.6f}, below the risk {risk:.6f}": risk <= upper,
        "samples must be 0 and monte_carlo null": c.samples == 0 and c.monte_carlo is None,
    }
    return risk, finding("exact risk", f"{risk:.6f} raised to {upper:.6f}", must)


def _check_monte_carlo(c: NetworkClaim, run: NetworkRun) -> tuple[float, Finding]:
    """Check how far a sampled risk is raised; return the least that it must be raised to."""
    risk, upper, name = c.mean_risk, c.risk_upper, c.monte_carlo
    block = 1 if run.network is None else min(c.n, redraw.BLOCK)  # examples that share a draw
    N = Fraction(c.n * (c.samples // c.theorem.networks), block)
    delta, draws = spent(c.ledger, "monte-carlo"), arb(N.numerator) / N.denominator
    within, pairs = None if c.theorem.networks == 2 else c.within, arb(c.n * (c.samples // 2))
    enclose = enclosures.INEQUALITIES.get(name or "")
    value = enclose(risk, within, pairs / block, draws, delta) if enclose else arb("inf")
    same = c.draws is not None and abs(Fraction(c.draws) / N - 1) < 1e-12 if N else False
    holds = same and risk <= upper and (upper >= 1 or bool(arb(upper) >= value))
    needed = min(1.0, float(value.upper()))
    detail = (
        f"{risk:.6f} raised to {upper:.6f}, {needed:.6f} needed by {name} with {float(N):g} draws"
    )
    return needed, Finding("Monte-Carlo term", holds, detail)


def _measured(e: Evidence) -> NetworkClaim:
    """Make the draws again that the key gives, and put what they measure into the claim."""
    c, names = e.claim, list(e.run.shapes)
    samples, step = None if c.draws is None else c.samples, c.quadrature_step or 1.0
    if e.run.network is None:
        activation = redraw.ACTIVATIONS[e.run.settings.activation]
        seen = {} if e.basis is None else {"seen": e.basis.seen}
        found = redraw.measure(names, e.laws, activation, e.data, samples, step, **seen)
    elif e.body is None:
        raise ValueError("the network is a module, which must be built to make its draws again")
    else:
        found = redraw.measure_shared(names, e.laws, e.body, e.data, samples, step)
    risk = found.tandem if c.theorem.networks == 2 else found.mean
    within = None if c.within is None else found.within
    return c.model_copy(update={"risk": risk, "within": within})


def _check_drawn(e: Evidence) -> Iterator[Finding]:
    """Check a drawn network: its weights, ln(dQ/dP), its errors and the disintegrated bound."""
    c, claimed = e.claim, e.claim.provenance.drawn_sha256
    path = e.folder / f"drawn-{str(claimed)[:16]}.safetensors"  # until its certificate is there
    path = path if path.exists() else e.folder / "drawn.safetensors"
    drawn, found = read_tensors(path), hash_of(path)
    shapes: redraw.Shapes = {name: w.shape for name, w in drawn.items()}
    must = {
        f"{found} found, but the certificate says {claimed}": found == claimed,
        "the file does not have the tensors of the run's network": shapes == e.run.shapes,
    }
    same_file = finding("hash of the drawn network", found, must)
    yield same_file
    if not same_file.holds:
        return
    networks, number = (math.ceil(c.parameters.get(key, -1)) for key in ("networks", "network"))
    same = 0 <= number < networks <= 1000 and redraw.is_kept(drawn, number, e.laws, e.data)
    yield Finding("weights drawn by their key", same, f"network {number} of {networks}")
    ratio = enclosures.log_ratio(drawn, e.laws)
    if e.basis is not None:
        own = {f"{e.basis.name}.mean": drawn[e.basis.name]}
        ratio += e.basis.rounding((e.laws[0], own))
    yield Finding("ln(dQ/dP)", bool(arb(c.kl) >= ratio), f"{c.kl:.4f} claimed, {ratio.str(12)}")
    yield _check_errors(e, drawn)
    yield theorem_bound(c, c.risk_upper, ratio, spent(c.ledger, c.part) / max(1, networks))


def _check_fixed(e: Evidence) -> Iterator[Finding]:
    """Check the network at the prior's means: its errors and the tail of their number or mean."""
    c = e.claim
    for prior in (read_tensors(e.folder / "prior.safetensors"), e.laws[0]):  # both, if relearned
        raw = e.basis is not None and prior is not e.laws[0]
        at = e.basis.prior(prior) if raw and e.basis is not None else prior
        yield _check_errors(e, _at_means(e, at))
    yield theorem_bound(c, c.risk_upper, arb(0), spent(c.ledger, c.part))


_OF_ONE_NETWORK = {  # whose weights are known
    "disintegrated": _check_drawn,
    "disintegrated-fixed": _check_drawn,
    "held-out": _check_fixed,
    "held-out-mean": _check_fixed,
}


def theorem_bound(c: NetworkClaim, risk: float, kl: arb, delta: arb) -> Finding:
    """Check that the claimed bound is at least what the theorem gives for this risk and KL."""
    value = c.theorem.bound(arb(risk), kl, c.n, delta, c.parameters)
    return bound(c.bound_name, c.bound, value, delta, least=risk)


def check_guess(e: Evidence, own: redraw.Data) -> tuple[float, Finding]:
    """Check that a guess of the risk is the prior's error on its own part of the data."""
    size, claimed = len(own[0]), e.claim.parameters["guess"]
    wrong = int(_errors(e, _at_means(e, e.laws[0]), own).sum()) if size else 0
    found = wrong / max(1, size)
    must = {
        "a data-free prior has no examples to guess the risk from": size > 0,
        f"{wrong} errors found, {claimed} claimed": claimed == found,
    }
    return found, finding("guess of the risk", f"{wrong} of {size} on the prior's part", must)


def _at_means(e: Evidence, prior: redraw.Weights) -> redraw.Weights:
    """Return the weights of the network at a prior's means."""
    return {name: prior[f"{name}.prior_mean"].astype(float) for name in e.run.shapes}


def _check_errors(e: Evidence, weights: redraw.Weights) -> Finding:
    c, grouped = e.claim, e.run.data.source.group is not None
    said = f"{c.risk:.6f} and risk_upper {c.risk_upper:.6f}"
    if e.run.network is not None and e.body is None:
        claimed = f"the risk is {said}; --full counts errors"
        return Finding("word", c.risk == c.risk_upper, claimed, word=True)
    errors = _errors(e, weights, e.data)
    total, n = enclosures.sum_of_means(errors, e.units if grouped else None)
    least = total / n if grouped else Fraction(int(total) / c.n)  # as the issuer rounds it
    holds = Fraction(c.risk) >= least and c.risk == c.risk_upper
    return Finding(COUNTED, holds, f"{int(errors.sum())} of {len(errors)}, risk {said} claimed")


def _errors(e: Evidence, weights: redraw.Weights, data: redraw.Data) -> redraw.Array:
    """Return where a network with known weights errs, (n,), in blocks; a tie is an error."""
    x, y = data
    blocks = (slice(i, i + _BLOCK) for i in range(0, len(x), _BLOCK))
    return np.concatenate([_errors_of(e, weights, x[b], y[b]) for b in blocks])


def _errors_of(
    e: Evidence, weights: redraw.Weights, x: redraw.Array, y: redraw.Array
) -> redraw.Array:
    tensors, body = [weights[name] for name in e.run.shapes], e.body
    a = x.astype(float) if e.basis is None else e.basis.seen(x)
    if body is not None:
        a = body(weights, a)
    else:
        for W, b in zip(tensors[:-2:2], tensors[1:-2:2], strict=True):
            a = redraw.ACTIVATIONS[e.run.settings.activation](a @ W.T + b)
    z = a @ weights["layer.weight"].T + weights["layer.bias"]
    scores = np.hstack([-z, z]) / 2 if z.shape[1] == 1 else z
    own = np.take_along_axis(scores, y[:, None], 1)[:, 0]
    np.put_along_axis(scores, y[:, None], -np.inf, 1)
    left_out = np.sort(scores, 1)[:, -e.claim.labels]  # the first that the label would keep out
    wrong: redraw.Array = ~(own - left_out > _TIED)
    return wrong
