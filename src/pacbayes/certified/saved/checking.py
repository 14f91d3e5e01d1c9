"""Check the certificates of a saved classifier without trusting or running its models.

Losses are counted again from the recorded labels and predictions, in exact fractions, and the
theorems are evaluated in outward-rounded interval arithmetic (Arb). This file, `counting` and
`statements` use nothing that issued the certificates: of the library only `enclosures`, and from
`verify` its record of a finding.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from pacbayes.certified.saved.counting import Votes, count, errors_together
from pacbayes.certified.saved.statements import (
    VOTES,
    Claim,
    Issued,
    Run,
    check_shapes,
    finding,
    read,
    read_arrays,
)
from pacbayes.enclosures import THEOREMS, Terms, kl_chernoff
from pacbayes.verify import Finding

__all__ = ["check_classifier", "recount"]

Array = NDArray[Any]
_BITS = 128
_CLOSE = 1 + Fraction(1, 2**30)  # claimed losses are rounded sums


def check_classifier(folder: Path, *, full: bool = False) -> Iterator[Finding]:
    """Check all certificates in a folder against its files.

    Raises ValueError if files are missing, damaged or malformed.

    Args:
        full: the recorded predictions are checked elsewhere, so they are not the issuer's word.
    """
    run, issued = read(folder / "run.json", Run), read(folder / "certificate.json", Issued)
    yield from _hashes(folder, run, issued)
    evidence = read_arrays(folder / "evidence.safetensors")
    shapes = check_shapes(run, evidence)
    yield shapes
    if not shapes.holds:
        return
    yield _split(run, evidence, issued)
    yield _ledger(run, issued)
    yield _complete(run, issued)
    yield _stated(run, issued, evidence)
    yield from recount(run, issued, evidence)
    yield _assumptions(run, issued)
    yield from _words(run, full=full)


def recount(run: Run, issued: Issued, evidence: Mapping[str, Array]) -> Iterator[Finding]:
    """Count the losses of every claim, and derive its bound."""
    ctx.prec = _BITS
    check = _vote if run.choose == "vote" else _counted
    for part, (name, claim) in run.claimed.items():
        if part in issued.certificates:
            yield from check(run, issued.certificates[part], evidence, name, claim)


def _hashes(folder: Path, run: Run, issued: Issued) -> Iterator[Finding]:
    named = {"evidence.safetensors", "models.skops"} <= run.files.keys()
    stray = [p.name for p in folder.glob("data.*") if p.name not in run.files]
    found = {name: _sha256(folder / name) for name in run.files}
    must = {
        f"{name} is not the file of run.json": h == run.files[name] for name, h in found.items()
    }
    must |= {"run.json must name evidence and models": named}
    must |= {f"{name} is not named in run.json": False for name in stray}
    yield finding("hashes of the files", ", ".join(run.files), must)
    own = _sha256(folder / "run.json")
    must = {"certificate.json belongs to another run.json": issued.run_sha256 == own}
    yield finding("hash of run.json", own, must)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"


def _split(run: Run, e: Mapping[str, Array], issued: Issued) -> Finding:
    """Draw the bound set again from the seed."""
    kept = e.get("kept", np.arange(run.n))
    units = e["groups"][kept] if run.grouped else kept
    units = np.unique(units, return_inverse=True)[1]
    total = int(units.max()) + 1
    share = 0.45 * min(1.0, math.pow(1000 / total, 0.25))
    share = share if run.fraction == "auto" else float(run.fraction)
    size = min(total - 1, max(1, math.floor(share * total)))
    words = np.random.SeedSequence(run.seed, spawn_key=(4,)).generate_state(1, np.uint64)
    order = np.random.default_rng(int(words[0])).permutation(total)
    drawn = kept[np.isin(units, order[:size])]
    sha256 = hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()
    stated = {"seed": run.seed, "bound_set_sha256": sha256}
    same = all(c.provenance == stated for c in issued.certificates.values())
    must = {
        f"the bound set is not what seed {run.seed} draws": np.array_equal(drawn, e["rows"]),
        "a certificate names another split": same,
    }
    return finding("bound set", f"{size} of {total} units, drawn by seed {run.seed}", must)


def _ledger(run: Run, issued: Issued) -> Finding:
    """Check that all certificates share one ledger, in which nothing has more than its share."""
    first = next(iter(issued.certificates.values()))
    delta, total = Fraction(first.delta), sum(map(Fraction, first.ledger.values()))
    shares = sum(map(Fraction, run.shares.values()))
    one = all(
        (c.delta, c.ledger) == (first.delta, first.ledger) for c in issued.certificates.values()
    )
    fits = all(Fraction(first.ledger.get(p, 0)) <= delta * s for p, s in run.parts.items())
    must = {
        f"the parts add up to {float(total):g}, more than δ": total <= delta,
        f"the shares add up to {float(shares):g}, more than 1": shares <= 1,
        "certificates differ in δ or ledger": one,
        "the parts are not those of the candidates": first.ledger.keys() == run.parts.keys(),
        "a part is larger than its candidate's share of δ": fits,
    }
    return finding("δ ledger", f"{len(run.parts)} parts of {first.delta:g}", must)


def _complete(run: Run, issued: Issued) -> Finding:
    found = {part: c.part for part, c in issued.certificates.items()}
    own = run.part_of(run.chosen, "all")
    chosen = issued.chosen in (VOTES if run.choose == "vote" else (own,))
    must = {
        "certificates are missing, or not of these candidates": found.keys() == run.claimed.keys(),
        "a certificate spends another part than its own": all(k == v for k, v in found.items()),
        f"{issued.chosen!r} is not the chosen predictor": chosen,
    }
    return finding("certificates", f"{len(found)}, of {issued.chosen} and others", must)


def _stated(run: Run, issued: Issued, e: Mapping[str, Array]) -> Finding:
    """Check the words in which a certificate says what it bounds, and of whom."""
    others = len(e.get("kept", e["labels"])) - len(e["rows"])
    vote = f"weighted vote of {len(run.shares)} candidates"
    must = {}
    for part, (name, claim) in run.claimed.items():
        if (c := issued.certificates.get(part)) is not None:
            whom = vote if run.choose == "vote" else f"{name}, fitted to {others} other examples"
            for found, wanted in ((c.quantity, run.quantity(claim)), (c.predictor, whom)):
                must[f"{part} is about {wanted!r}, not {found!r}"] = found == wanted
    return finding("words of the certificates", f"{len(issued.certificates)} as counted", must)


def _counted(
    run: Run, c: Claim, e: Mapping[str, Array], name: str, claim: str
) -> Iterator[Finding]:
    """Count the losses of a candidate, and derive their bound."""
    row = list(run.shares).index(name)
    votes = Votes(
        labels=e["labels"][e["rows"]],
        predicted=e["predictions"][row],
        groups=e["groups"][e["rows"]] if run.grouped else None,
        answers=e.get("answers"),
        costs=run.costs,
        classes=run.classes,
    )
    found = count(votes, claim)
    total, scale = found.total * found.scale, found.scale
    must = {
        f"{c.n} units claimed, {found.n} counted": c.n == found.n,
        f"{c.losses:g} claimed, {float(total):g} counted": Fraction(c.losses) * _CLOSE >= total,
        f"largest loss {c.scale:g} claimed, {float(scale):g} needed": Fraction(c.scale) == scale,
        f"{c.theorem} does not suit these losses": c.theorem == found.theorem,
    }
    detail = f"{c.part}: {float(total):g} in {found.n}"
    yield finding("losses counted", detail, must)
    delta, value = arb(c.ledger.get(c.part, 1e-300)), arb(1)
    if found.n and found.theorem == "held-out":
        terms = Terms(arb(int(found.total)) / found.n, arb(0), found.n, delta, {})
        value = THEOREMS["held-out"].value(terms)
    elif found.n:
        value = kl_chernoff(_up(found.total / found.n), found.n, delta)
    yield _bound(c, value * float(scale), float(scale))


def _vote(run: Run, c: Claim, e: Mapping[str, Array], name: str, claim: str) -> Iterator[Finding]:
    """Derive a vote's bound: 2·kl⁻¹ of the mean error, or 4·kl⁻¹ of the tandem error."""
    labels, groups = e["labels"][e["rows"]], e["groups"][e["rows"]] if run.grouped else None
    wrong = e["predictions"] != labels
    weights = [Fraction(w) for w in e["weights"].tolist()]
    rho = [w / sum(weights) for w in weights]
    pi = [Fraction(share) for share in run.shares.values()]
    kl = sum(
        (_arb(r) * (_arb(r) / _arb(p)).log() for r, p in zip(rho, pi, strict=True) if r), arb(0)
    )
    risk, n = errors_together(wrong, groups, rho, tandem=c.theorem == "tandem")
    must = {
        f"{c.n} units claimed, {n} counted": c.n == n,
        f"{c.theorem} certifies no vote": c.theorem == name,
        f"KL {c.kl:g} claimed, {kl.str(6)} needed": bool(arb(c.kl) >= kl),
        "errors are certified, not costs": run.costs is None and c.scale == 1,
    }
    yield finding("losses counted", f"{c.theorem}: {float(risk):g}, KL {kl.str(6)}", must)
    row = THEOREMS[name]
    terms = Terms(arb(_up(risk)), row.networks * kl, n, arb(c.ledger.get(c.part, 1e-300)), {})
    yield _bound(c, row.markov * row.value(terms), 1.0)


def _arb(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _up(value: Fraction) -> float:
    """Return the smallest float that is certainly at or above a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _bound(c: Claim, value: arb, scale: float) -> Finding:
    own = min(scale, float(value.upper()))
    holds = c.bound >= scale or bool(arb(c.bound) >= value)
    detail = f"{c.part}: {c.bound:.6f} claimed, {own:.6f} needed at δ = {c.ledger.get(c.part, 0):g}"
    return Finding(f"bound ({c.theorem})", holds, detail, bound=own)


def _assumptions(run: Run, issued: Issued) -> Finding:
    expected = _sentences(run)
    same = all(c.assumptions == expected for c in issued.certificates.values())
    must = {"the certificates do not state what they take on trust": same}
    return finding("assumptions", f"{len(expected)} stated", must)


def _sentences(run: Run) -> tuple[str, ...]:
    units = "groups" if run.grouped else "examples"
    removed = "New examples do not repeat either: copies were removed (by deduplicate=True)."
    natural = "Examples that repeat are natural in these data (declared by repeats=True)."
    declared = [removed] * run.deduplicated + [natural] * run.repeats
    return (
        f"The {units} are independent, and new ones come from the same source.",
        "Their features were computed without looking at the bound set.",
        *declared,
        f"No other split was tried than that of seed {run.seed}.",
        "The candidates, and all that they keep outside their parameters, never saw the bound set: "
        "not before fitting, and not when their settings were chosen.",
        "What predicts does not change, treats each example by itself, and keeps no other state.",
        "The set of classes, δ and what is certified were chosen in advance.",
        "Nothing else was tried on the bound set than the ledger pays for.",
    )


def _words(run: Run, *, full: bool) -> Iterator[Finding]:
    said = list(_sentences(run))
    if not full:
        said.append("The models give the recorded predictions; verify --full predicts again.")
    yield from (Finding("word", True, text, word=True) for text in said)
