"""Check the certificates of a saved classifier without running its models.

Losses are counted again from the recorded labels and predictions, in exact fractions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from flint import arb

from pacbayes.verify.enclosures import THEOREMS, sum_of_means
from pacbayes.verify.findings import Finding, bound, finding, ledger, spent, word, words
from pacbayes.verify.records import (
    ANSWERED,
    OVERALL,
    UNANSWERED,
    VOTES,
    ClassifierCertificates,
    ClassifierClaim,
    ClassifierRun,
    hash_of,
    read,
    read_tensors,
)
from pacbayes.verify.redraw import Array, shuffled

__all__ = ["Votes", "check_classifier", "check_evidence", "count", "errors_together", "recount"]

_CLOSE = 1 + Fraction(1, 2**30)  # claimed losses are rounded sums


def check_classifier(path: Path, *, full: bool) -> Iterator[Finding]:
    """Check all certificates in a file against the folder it lies in.

    Args:
        full: the recorded predictions are checked elsewhere, so they are not the issuer's word.
    """
    folder = path.parent
    run, issued = read(folder / "run.json", ClassifierRun), read(path, ClassifierCertificates)
    yield from _hashes(folder, run, issued)
    evidence = read_tensors(folder / "evidence.safetensors")
    shapes = _shapes(run, evidence)
    yield shapes
    if not shapes.holds:
        return
    yield _split(run, evidence, issued)
    yield _ledger(run, issued)
    yield _complete(run, issued)
    yield _stated(run, issued, evidence)
    yield from recount(run, issued, evidence)
    wanted = words(run)
    same = all(c.assumptions == wanted for c in issued.certificates.values())
    must = {"the certificates do not state what they take on trust": same}
    yield finding("assumptions", f"{len(wanted)} stated", must)
    yield from map(word, wanted)
    if not full:
        yield word("The models give the recorded predictions; verify --full predicts again.")


def check_evidence(folder: Path) -> Finding:
    """Check that the recorded evidence is what run.json says it is."""
    evidence = read_tensors(folder / "evidence.safetensors")
    return _shapes(read(folder / "run.json", ClassifierRun), evidence)


def recount(
    run: ClassifierRun, issued: ClassifierCertificates, evidence: Mapping[str, Array]
) -> Iterator[Finding]:
    """Count the losses of every claim, and derive its bound."""
    check = _check_vote if run.choose == "vote" else _check_candidate
    for part, (name, claim) in run.claimed.items():
        if part in issued.certificates:
            yield from check(run, issued.certificates[part], evidence, name, claim)


def _hashes(folder: Path, run: ClassifierRun, issued: ClassifierCertificates) -> Iterator[Finding]:
    named = {"evidence.safetensors", "models.skops"} <= run.files.keys()
    stray = [p.name for p in folder.glob("data.*") if p.name not in run.files]
    found = {name: hash_of(folder / name) for name in run.files}
    must = {
        f"{name} is not the file of run.json": h == run.files[name] for name, h in found.items()
    }
    must |= {"run.json must name evidence and models": named}
    must |= {f"{name} is not named in run.json": False for name in stray}
    yield finding("hashes of the files", ", ".join(run.files), must)
    own = hash_of(folder / "run.json")
    must = {"certificate.json belongs to another run.json": issued.run_sha256 == own}
    yield finding("hash of run.json", own, must)


def _shapes(run: ClassifierRun, e: Mapping[str, Array]) -> Finding:
    """Check that labels, groups and predictions are what run.json says they are."""
    k, m = len(run.classes), len(run.shares)
    known = (OVERALL, ANSWERED, UNANSWERED, *(f"class {name}" for name in run.classes))
    wanted = {"rows", "labels", "predictions"} | ({"groups"} if run.grouped else set())
    wanted |= {"answers"} if {ANSWERED, UNANSWERED} & set(run.claims) else set()
    wanted |= {"weights"} if run.choose == "vote" else set()
    wanted |= {"kept"} if run.deduplicated else set()
    if e.keys() != wanted:
        return Finding("evidence", False, f"has {sorted(e)}, must have {sorted(wanted)}")
    size = e["rows"].size
    square = run.costs is None or [len(row) for row in run.costs] == [k] * k
    answers = (m, size) if run.labels == 1 else (m, size, run.labels)
    plain = run.costs is None and run.choose != "vote" and "answers" not in e
    fits = run.labels == 1 or (run.labels < k and plain)
    candidates = ("vote",) if run.choose == "vote" else tuple(run.shares)
    integers = all(e[name].dtype == np.int64 for name in wanted - {"answers", "weights"})
    must = {
        "rows, labels, groups and predictions must be 64-bit integers": integers,
        f"must have labels of {run.n} examples": e["labels"].shape == (run.n,),
        "rows must be increasing indices of examples": _are_indices(e["rows"], run.n, 1),
        "must predict each example once": e["predictions"].shape == answers,
        f"the loss {run.loss} needs more classes, and no costs, vote or abstention": fits,
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
            run.claims[0] == OVERALL
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


def _split(run: ClassifierRun, e: Mapping[str, Array], issued: ClassifierCertificates) -> Finding:
    """Draw the bound set again from the seed."""
    kept = e.get("kept", np.arange(run.n))
    units = e["groups"][kept] if run.grouped else kept
    units = np.unique(units, return_inverse=True)[1]
    total = int(units.max()) + 1
    share = 0.45 * min(1.0, math.pow(1000 / total, 0.25))
    share = share if run.fraction == "auto" else float(run.fraction)
    size = min(total - 1, max(1, math.floor(share * total)))
    drawn = kept[np.isin(units, shuffled(run.seed, total)[:size])]
    sha256 = hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()
    stated = {"seed": run.seed, "bound_set_sha256": sha256}
    same = all(c.provenance == stated for c in issued.certificates.values())
    must = {
        f"the bound set is not what seed {run.seed} draws": np.array_equal(drawn, e["rows"]),
        "a certificate names another split": same,
    }
    return finding("bound set", f"{size} of {total} units, drawn by seed {run.seed}", must)


def _ledger(run: ClassifierRun, issued: ClassifierCertificates) -> Finding:
    """Check that all certificates share one ledger, in which nothing has more than its share."""
    first = next(iter(issued.certificates.values()))
    delta, shares = Fraction(first.delta), sum(map(Fraction, run.shares.values()))
    one = all(
        (c.delta, c.ledger) == (first.delta, first.ledger) for c in issued.certificates.values()
    )
    fits = all(Fraction(first.ledger.get(p, 0)) <= delta * s for p, s in run.parts.items())
    must = {
        f"the shares add up to {float(shares):g}, more than 1": shares <= 1,
        "certificates differ in δ or ledger": one,
        "the parts are not those of the candidates": first.ledger.keys() == run.parts.keys(),
        "a part is larger than its candidate's share of δ": fits,
    }
    detail = f"{len(run.parts)} parts of {first.delta:g}"
    return ledger(detail, first.ledger, first.delta, must)


def _complete(run: ClassifierRun, issued: ClassifierCertificates) -> Finding:
    found = {part: c.part for part, c in issued.certificates.items()}
    own = run.part_of(run.chosen, OVERALL)
    chosen = issued.chosen in (VOTES if run.choose == "vote" else (own,))
    must = {
        "certificates are missing, or not of these candidates": found.keys() == run.claimed.keys(),
        "a certificate spends another part than its own": all(k == v for k, v in found.items()),
        f"{issued.chosen!r} is not the chosen predictor": chosen,
    }
    return finding("certificates", f"{len(found)}, of {issued.chosen} and others", must)


def _stated(run: ClassifierRun, issued: ClassifierCertificates, e: Mapping[str, Array]) -> Finding:
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


class Votes(NamedTuple):
    """What one candidate answered on the bound set.

    Attributes:
        labels, predicted: indices of classes; −1 is an answer that is no class. An answer may be
            several classes, (n, k).
        groups: index of each example's group, if groups are the units.
        answers: whether each example is answered.
        costs: of answering the class in column j to an example of the class in row i.
        classes: names of the classes.
    """

    labels: Array
    predicted: Array
    groups: Array | None
    answers: Array | None
    costs: Sequence[Sequence[float]] | None
    classes: tuple[str, ...]


class Count(NamedTuple):
    """The sum of the units' losses, each between 0 and 1, and what it means.

    Attributes:
        n: number of units.
        scale: the loss that 1 stands for.
        theorem: what bounds the mean of such losses.
    """

    total: Fraction
    n: int
    scale: Fraction
    theorem: str


def count(votes: Votes, claim: str) -> Count:
    """Count the losses of one claim: all examples, those of a class, answered or unanswered."""
    if claim == OVERALL and votes.costs is not None:
        return _costs(votes, votes.costs)
    several = votes.predicted.reshape(len(votes.labels), -1)
    wrong, everything = ~(votes.labels == several.T).any(0), np.ones(len(votes.labels), bool)
    answers = everything if votes.answers is None else votes.answers
    if claim == UNANSWERED:
        wrong, where = ~answers, everything
    elif claim in (OVERALL, ANSWERED):
        where = answers if claim == ANSWERED else everything
    else:
        where = votes.labels == votes.classes.index(claim.removeprefix("class "))
    groups = None if votes.groups is None else votes.groups[where]
    total, n = sum_of_means(wrong[where], groups)
    return Count(total, n, Fraction(1), "held-out" if votes.groups is None else "kl-chernoff")


def _costs(votes: Votes, costs: Sequence[Sequence[float]]) -> Count:
    exact = [[Fraction(cost) for cost in row] for row in costs]
    scale = max(map(max, exact))
    total, n = Fraction(0), 0
    for i, row in enumerate(exact):
        for j, cost in enumerate([*row, max(row)]):  # an answer that is no class costs most
            j = -1 if j == len(row) else j
            here = (votes.labels == i) & (votes.predicted == j)
            part, n = sum_of_means(here, votes.groups)
            total += part * cost / scale
    binary = votes.groups is None and all(cost in (0, scale) for row in exact for cost in row)
    return Count(total, n, scale, "held-out" if binary else "kl-chernoff")


def errors_together(
    wrong: Array, groups: Array | None, rho: Sequence[Fraction], *, tandem: bool
) -> tuple[Fraction, int]:
    """Return the mean error of candidates drawn from ρ, or of two that err together; and n."""
    n = len(wrong[0]) if groups is None else len(np.unique(groups))
    if not tandem:
        sums = (r * sum_of_means(w, groups)[0] for r, w in zip(rho, wrong, strict=True))
        return sum(sums, Fraction(0)) / n, n
    pairs = [(i, j) for i in range(len(rho)) for j in range(len(rho)) if rho[i] and rho[j]]
    sums = (rho[i] * rho[j] * sum_of_means(wrong[i] & wrong[j], groups)[0] for i, j in pairs)
    return sum(sums, Fraction(0)) / n, n


def _check_candidate(
    run: ClassifierRun, c: ClassifierClaim, e: Mapping[str, Array], name: str, claim: str
) -> Iterator[Finding]:
    """Count the losses of a candidate, and derive their bound."""
    votes = Votes(
        labels=e["labels"][e["rows"]],
        predicted=e["predictions"][list(run.shares).index(name)],
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
    yield finding("losses counted", f"{c.part}: {float(total):g} in {found.n}", must)
    whole = found.theorem == "held-out"
    risk = found.total / max(1, found.n)
    enclosed = _arb(risk) if whole else arb(_up(risk))
    theorem = "held-out" if whole else "held-out-mean"
    yield _bound(c, theorem, enclosed, arb(0), found.n, float(scale))


def _check_vote(
    run: ClassifierRun, c: ClassifierClaim, e: Mapping[str, Array], name: str, claim: str
) -> Iterator[Finding]:
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
    yield _bound(c, name, arb(_up(risk)), kl, n, 1.0)


def _bound(c: ClassifierClaim, theorem: str, risk: arb, kl: arb, n: int, scale: float) -> Finding:
    """Check the bound of a mean loss; of no examples, it must be the largest loss."""
    delta = spent(c.ledger, c.part)
    value = THEOREMS[theorem].bound(risk, kl, n, delta, {}) if n else arb(1)
    return bound(c.theorem, c.bound, value * scale, delta, scale=scale, about=f"{c.part}: ")


def _arb(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _up(value: Fraction) -> float:
    """Return the smallest float that is certainly at or above a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
