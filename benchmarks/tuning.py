"""How the defaults for tables were chosen: `make tuning`.

The sets and the hold-out are those of `make tables`, with seeds 10, 11 and 12, which `make tables`
does not use. All numbers are means over the sets and these seeds: certificate, its gap to the
hold-out on the same split, the share of runs in which it is lower than the hold-out of any seed,
the test error and its gap, in per cent, and CPU seconds of `fit`. Rules are functions of n alone.

- *candidates*: for each size of the bound set the candidates are fitted once. Rules for their mean,
  for its share of δ and for the size of the bound set are then compared on the same fits, with the
  nearest of the sizes 20, 25, 30, 35, 45 and 55 %.
- *network*: `PACBayesClassifier` with different parts for the prior, and least numbers of steps in
  which it learns.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier
from tables import BUNDLED, DELTA, KEEL, coded, error, load, run, timed

from pacbayes import PACBayesClassifier
from pacbayes.bounds import clopper_pearson
from pacbayes.defaults import bound_fraction
from pacbayes.models.candidates import _scaled, default_candidates, probabilities

HERE = Path(__file__).parent
FITS = HERE.parent / "build" / "tuning"
STORE = HERE / "tuning.jsonl"
SETS, SEEDS = (*BUNDLED, *KEEL), (10, 11, 12)
SHORT = {
    "gradient boosting": "gb",
    "random forest": "rf",
    "extra trees": "et",
    "logistic regression": "lr",
    "neural network": "mlp",
}
FEW = ("iris", "wine", "breast_cancer", "digits", "australian", "pima", "german", "segment")
FRACTIONS = (0.2, 0.25, 0.3, 0.35, 0.45, 0.55)

Row = dict[str, Any]
Rule = Callable[[int], float]


def growing(most: float, few: int = 1000, power: float = 0.25) -> Rule:
    """Return the fraction of a bound set that falls with n."""
    return lambda n: most * min(1.0, (few / n) ** power)


def equal(names: str) -> Callable[[int], dict[str, float]]:
    return lambda n: dict.fromkeys(names.split(), 1.0)


def linear(weight: Rule) -> Callable[[int], dict[str, float]]:
    return lambda n: dict.fromkeys(["gb", "rf", "et", "mlp"], 1.0) | {"lr": weight(n)}


CHOSEN = linear(lambda n: min(1.0, 1000 / n))
CANDIDATES: dict[str, tuple[Callable[[int], dict[str, float]], float, Rule]] = {
    "gb rf lr mlp, mean 80 % (before)": (equal("gb rf lr mlp"), 0.8, bound_fraction),
    "gb rf lr mlp": (equal("gb rf lr mlp"), 0.9, bound_fraction),
    "gb rf mlp": (equal("gb rf mlp"), 0.9, bound_fraction),
    "gb et mlp": (equal("gb et mlp"), 0.9, bound_fraction),
    "gb rf et lr mlp": (equal("gb rf et lr mlp"), 0.9, bound_fraction),
    "gb rf et mlp": (equal("gb rf et mlp"), 0.9, bound_fraction),
    "gb rf et mlp, neighbours": (equal("gb rf et mlp knn"), 0.9, bound_fraction),
    "gb rf et mlp, lr at weight ½": (linear(lambda n: 0.5), 0.9, bound_fraction),
    "gb rf et mlp, lr below n = 1000": (linear(lambda n: float(n < 1000)), 0.9, bound_fraction),
    "**gb rf et mlp, lr at 1000/n**": (CHOSEN, 0.9, bound_fraction),
    "the same, mean 80 %": (CHOSEN, 0.8, bound_fraction),
    "the same, mean alone": (CHOSEN, 1.0, bound_fraction),
    "the same, bound set 35 %": (CHOSEN, 0.9, lambda n: 0.35),
    "the same, bound set 45 %": (CHOSEN, 0.9, lambda n: 0.45),
    "the same, 0.45·(500/n)^¼": (CHOSEN, 0.9, growing(0.45, 500)),
    "the same, 0.45·(2000/n)^¼": (CHOSEN, 0.9, growing(0.45, 2000)),
    "the same, 0.55·(1000/n)^0.35": (CHOSEN, 0.9, growing(0.55, 1000, 0.35)),
}
SMALLEST = ("iris", "wine", "breast_cancer")
LINEAR = {
    "linear, 100 epochs (before)": 0,
    "**linear, 3000 steps**": 3000,
    "linear, 10,000": 10_000,
}
NETWORKS: dict[str, tuple[Rule, int]] = {
    "½, 100 epochs (before)": (lambda n: 0.5, 0),
    "½, 3000 steps": (lambda n: 0.5, 3000),
    "½, 10,000 steps": (lambda n: 0.5, 10_000),
    "0.4, 3000 steps": (lambda n: 0.4, 3000),
    "0.6, 3000 steps": (lambda n: 0.6, 3000),
    "0.7, 3000 steps": (lambda n: 0.7, 3000),
    "**1 − 0.5·(1000/n)^¼, 3000 steps**": (lambda n: 1 - growing(0.5)(n), 3000),
    "1 − 0.45·(1000/n)^¼, 3000 steps": (lambda n: 1 - bound_fraction(n), 3000),
}


def divided(name: str, seed: int) -> tuple[Any, ...]:
    """Return training and test examples, split as `make tables` does."""
    x, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    test, rest = order[: len(y) // 5], order[len(y) // 5 :]
    return x[rest], y[rest], x[test], y[test]


def sizes(name: str) -> tuple[float, ...]:
    return FRACTIONS[2:] if name in FEW else FRACTIONS[:-1]


def fit(name: str, seed: int, fraction: float) -> None:
    """Store the candidates' probabilities on a bound set and on the test set."""
    if (path := FITS / f"{name}-{seed}-{fraction}.npz").exists():
        return
    warnings.filterwarnings("ignore")
    x, y, x_test, y_test = divided(name, seed)
    order = np.random.default_rng([seed, 2]).permutation(len(y))
    bound, own = np.split(order, [int(fraction * len(y))])
    classes = np.unique(load(name)[1])
    models = {SHORT[long]: model for long, model in default_candidates(seed).items()}
    models["knn"] = _scaled(KNeighborsClassifier(weights="distance"))
    found = {"yb": y[bound], "yt": y_test, "n": len(y)}
    for short, model in models.items():
        model.fit(x[own], y[own])
        for part, some in (("b", x[bound]), ("t", x_test)):
            found[f"{part}_{short}"] = probabilities(model, some, classes).astype(np.float32)
    np.savez(path, **found)


def hold_out(name: str, seed: int) -> Row:
    if not (path := FITS / f"hold-{name}-{seed}.json").exists():
        path.write_text(json.dumps(run(name, seed, "hold-out")[0]))
    row: Row = json.loads(path.read_text())
    return row


def candidates(label: str, name: str, seed: int) -> Row:
    """Apply a rule to stored fits."""
    weights, share, fraction = CANDIDATES[label]
    n = hold_out(name, seed)["n"]
    nearest = min(sizes(name), key=lambda f: abs(f - fraction(n)))
    found = np.load(FITS / f"{name}-{seed}-{nearest}.npz")
    mean = weights(n)
    tried = [(share, mean)]
    if share < 1:
        tried += [((1 - share) / len(mean), {one: 1.0}) for one in mean]
    best, wrong = 2.0, 1.0
    for part, members in tried:
        there, test = (sum(w * found[f"{k}_{m}"] for m, w in members.items()) for k in "bt")
        errors = float(np.mean(there.argmax(1) != found["yb"]))
        bound = clopper_pearson(errors, len(found["yb"]), DELTA * part)
        if bound < best:
            best, wrong = bound, float(np.mean(test.argmax(1) != found["yt"]))
    return {"certificate": best, "test": wrong, "seconds": math.nan}


def network(label: str, name: str, seed: int) -> Row:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    fraction, steps = NETWORKS.get(label) or (lambda n: 0.5, LINEAR[label])
    x, y, x_test, y_test = divided(name, seed)
    train, test, preprocessing = coded(x, x_test)
    own = round(fraction(len(y)) * len(y))
    each = math.ceil(own / min(512, max(16, own // 100)))  # steps of an epoch
    model = PACBayesClassifier(
        widths=() if label in LINEAR else (100,),
        prior_fraction=fraction(len(y)),
        prior_epochs=max(100, math.ceil(steps / each)),
        preprocessing=preprocessing,
        repeats=True,
        random_state=seed,
    )
    seconds = timed(model, train, y)
    wrong = float(np.mean(model.predict(test) != y_test))
    return {"certificate": model.certificate_.bound, "test": wrong, "seconds": seconds}


def table(
    rows: dict[tuple[str, str, int], Row], labels: Iterable[str], sets: tuple[str, ...] = SETS
) -> Iterator[str]:
    columns = ("rule", "certificate", "gap", "lower", "test error", "gap", "seconds")
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for label in labels:
        gaps, lower, tests, own = [], [], [], []
        for name in sets:
            theirs = [hold_out(name, seed) for seed in SEEDS]
            for seed, other in zip(SEEDS, theirs, strict=True):
                ours = rows[label, name, seed]
                own.append(ours)
                gaps.append(ours["certificate"] - other["certificate"])
                lower += [ours["certificate"] < t["certificate"] for t in theirs]
                tests.append(ours["test"] - error(other))
        seconds = fmean(r["seconds"] for r in own)
        cells = (
            f"{100 * fmean(r['certificate'] for r in own):.2f} | {100 * fmean(gaps):+.2f} | "
            f"{fmean(lower):.0%} | {100 * fmean(r['test'] for r in own):.2f} | "
            f"{100 * fmean(tests):+.2f} | {'–' if math.isnan(seconds) else f'{seconds:.1f}'}"
        )
        yield f"| {label} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    jobs = parser.parse_args().jobs
    FITS.mkdir(parents=True, exist_ok=True)
    pairs = [(name, seed) for seed in SEEDS for name in SETS]
    stored = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    rows = {(r["rule"], r["set"], r["seed"]): r for r in stored}
    with ProcessPoolExecutor(jobs) as pool:
        list(pool.map(hold_out, *zip(*pairs, strict=True)))
        wanted = [(name, seed, f) for name, seed in pairs for f in sizes(name)]
        list(pool.map(fit, *zip(*wanted, strict=True)))
        for label in (*NETWORKS, *LINEAR):
            sets = SMALLEST if label in LINEAR else SETS
            missing = [p for p in pairs if p[0] in sets and (label, *p) not in rows]
            found = (
                pool.map(partial(network, label), *zip(*missing, strict=True)) if missing else []
            )
            for (name, seed), row in zip(missing, found, strict=True):
                rows[label, name, seed] = row | {"rule": label, "set": name, "seed": seed}
            print(f"{label}: {len(missing)} runs", flush=True)
            STORE.write_text("".join(json.dumps(r) + "\n" for r in rows.values()))
    combined = {(label, *pair): candidates(label, *pair) for label in CANDIDATES for pair in pairs}
    lines = ["# How the defaults for tables were chosen\n", (__doc__ or "").strip() + "\n"]
    lines += ["## Candidates\n", *table(combined, CANDIDATES), ""]
    lines += ["## Network\n", *table(rows, NETWORKS), ""]
    lines += ["Without hidden layers, on iris, wine and breast_cancer:\n"]
    lines += table(rows, LINEAR, SMALLEST)
    (HERE / "tuning.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
