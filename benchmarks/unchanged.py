"""Show that nothing is lost: `python benchmarks/unchanged.py --before OTHER/src`.

Two versions train, certify, verify and predict the same inputs: networks of every kind, tables,
models of any kind and both estimators. They also verify the folders of `results/` and
`tests/formats`, and print the paper's table. What is compared are numbers, to the last bit:
weights, bounds and their parts, predictions, exit codes, and whether each folder holds. A number
of a certificate may move to another field, but not disappear. Sentences, new numbers and the
layout of files may differ: sentences are counted, but change nothing. Exit code 1 means that a
number changed.

`--keep FILE` writes the numbers of the version that runs this, and `--before FILE` reads them
instead of computing those of the earlier version again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_GROWING = "reinforce", "optim"  # columns that may gain repeats from one version to the next
Facts = dict[str, Any]  # `numbers` must stay; `floats` must all still be there; `words` may change


def hashed(*parts: bytes) -> str:
    """Return a short hash of bytes."""
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def of_arrays(arrays: Any) -> list[str]:
    """Return the hashes of arrays, whatever their names and order are."""
    import numpy as np

    return sorted(hashed(str(a.shape).encode(), np.asarray(a).tobytes()) for a in arrays)


def floats(record: Any) -> Iterator[float]:
    """Yield every float of plain data, but not provenance, which has versions and times."""
    if isinstance(record, Mapping):
        for name, value in record.items():
            if name != "provenance":
                yield from floats(value)
    elif isinstance(record, list | tuple):
        for value in record:
            yield from floats(value)
    elif isinstance(record, float):
        yield record


def of_certificate(certificate: Any) -> Facts:
    """Return what a certificate must keep."""
    if certificate is None:
        return {"numbers": None}
    names = ("bound", "risk", "kl", "n", "delta", "theorem")
    numbers = {name: getattr(certificate, name) for name in names}
    numbers["held_out"], numbers["shown"] = certificate.held_out, certificate.shown
    record = certificate.as_dict()
    return {"numbers": numbers, "floats": sorted({repr(f) for f in floats(record)})}


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command of the library in this process and return its code, output and messages."""
    from pacbayes import cli

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["pacbayes", *map(str, arguments)]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    return int(code), out.getvalue(), err.getvalue()


def of_verify(*arguments: object) -> Facts:
    """Return what `verify` says of a folder."""
    code, out, err = run("verify", *arguments, "--json")
    if code == 2:
        return {"numbers": {"code": code}, "words": [err.strip().splitlines()[-1]]}
    said = json.loads(out)
    bounds = sorted({repr(f) for f in floats(said)})
    found = said.get("findings", [])
    failed = sorted(f["name"] for f in found if not f["holds"])
    words = sorted(f"{f['name']}: {f['detail']}" for f in found)
    return {
        "numbers": {"code": code, "holds": said["holds"], "failed": failed},
        "floats": bounds,
        "words": [word for word in words if "hash" not in word],
    }


def of_folder(folder: Path) -> Facts:
    """Return the weights and certificates of a run folder."""
    from safetensors.numpy import load_file

    weights = {}
    for path in sorted(folder.rglob("*.safetensors")):
        if path.stem.startswith(("prior", "posterior", "drawn")):
            name = str(path.relative_to(folder).with_name(path.stem.split("-")[0]))
            weights[name] = of_arrays(load_file(path).values())
    issued = [json.loads(path.read_text()) for path in folder.rglob("certificate*.json")]
    found = [value for record in issued for value in floats(record)]
    return {"numbers": weights, "floats": sorted({repr(f) for f in found})}


# Inputs. Each is a function that yields names and facts; it works in an empty folder.


def bounds_alone() -> Iterator[tuple[str, Facts]]:
    """Every theorem at some numbers."""
    from pacbayes import catoni, kl_inverse, mcallester, small_kl

    grid = [(r, k, n, d) for r in (0, 0.1, 0.5) for k in (0, 50, 5e3) for n in (200, 60_000)
            for d in (1e-9, 0.05)]  # fmt: skip
    for theorem in (catoni, small_kl, mcallester):
        yield theorem.__name__, {"numbers": [theorem(*numbers) for numbers in grid]}
    yield "kl_inverse", {"numbers": [kl_inverse(r, k / n) for r, k, n, _ in grid]}
    for name in ("catoni-c", "catoni-fixed", "disintegrated", "disintegrated-fixed", "first-order",
                 "held-out", "held-out-mean", "mcallester", "quadratic", "small-kl", "tandem",
                 "thiemann", "unexpected-bernstein"):  # fmt: skip
        kl = () if name.startswith("held-out") else ("--kl", 12)
        code, out, _ = run("bound", name, "--risk", 0.03, *kl, "--n", 5000, "--json")
        record = json.loads(out) if code == 0 else {}
        yield f"bound {name}", {"numbers": code, "floats": sorted(map(repr, floats(record)))}


def networks() -> Iterator[tuple[str, Facts]]:
    """Networks in memory, by every activation, estimator, objective and theorem."""
    from pacbayes import Settings, build_network, certify, empirical_risk, train
    from pacbayes.data import load

    few = {"epochs": 2, "samples": 3, "evaluation_samples": 2, "evaluate_every": 1}
    plain = {"widths": (12, 8), "learned_scale": True} | few
    kinds: dict[str, tuple[str, str, str, dict[str, Any]]] = {
        "relu": ("digits", "relu", "small-kl", {}),
        "relu, torch": ("digits", "relu", "catoni", {"engine": "torch"}),
        "relu, unit scale": ("digits", "relu", "unexpected-bernstein", {"learned_scale": False}),
        "sigmoid": ("digits", "sigmoid", "first-order", {"kl_warmup": 0.5}),
        "linear": ("digits", "sign", "tandem", {"widths": (), "objective": "small-kl"}),
        "ten, relu": ("ten-digits", "relu", "small-kl", {"objective": "optim-lambda"}),
        "ten, sign": ("ten-digits", "sign", "catoni-fixed", {"estimator": "marginal"}),
        "ten, linear": ("ten-digits", "relu", "first-order", {"widths": ()}),
    }
    for estimator in ("marginal", "leave-one-out", "local-expectation", "straight-through",
                      "reinforce", "reinforce-per-example"):  # fmt: skip
        kinds[f"sign, {estimator}"] = ("digits", "sign", "small-kl", {"estimator": estimator})
    for name, (dataset, activation, bound, changes) in kinds.items():
        examples = load(dataset)
        x, y = (tensor[:600] for tensor in examples.tensors("train"))
        classes = 10 if dataset.startswith("ten") else 2
        settings = Settings.of("fast", activation, classes=classes, **(plain | changes))
        network = build_network(settings, x.shape[1], classes)
        history = train(network, x, y, settings)
        weights = of_arrays(t.detach().numpy() for t in network.state_dict().values())
        trained = [(e.epoch, e.bound, e.kl) for e in history]
        yield f"{name}: posterior", {"numbers": [weights, trained]}
        yield f"{name}: {bound}", of_certificate(certify(network, x, y, bound=bound, samples=4))
        if name == "relu":
            other = "stratified-bernstein"
            issued = certify(network, x, y, samples=4, monte_carlo=other, priors=3, delta=0.01)
            yield f"{name}: {other}", of_certificate(issued)
            yield f"{name}: best-of", of_certificate(certify(network, x, y, bound="best-of"))
            risk = empirical_risk(network, x, y, 5)
            yield f"{name}: risk", {"numbers": [risk.mean, risk.variance]}


def modules() -> Iterator[tuple[str, Facts]]:
    """Any module as a network, with a data-free and a learned prior."""
    import torch

    from pacbayes import Settings, certify, frozen_features, learn_prior, stochastic, train
    from pacbayes.data import load

    x, y = (tensor[:400] for tensor in load("digits").tensors("train"))
    x = x.reshape(-1, 1, 8, 8)
    torch.manual_seed(0)
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, 2),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 1),
    )
    learned = learn_prior(conv, x[:200], y[:200], epochs=3, fold=True)
    settings = Settings.of("fast", "relu", epochs=2, samples=2, evaluation_samples=2)
    for name, network, k in (
        ("learned", stochastic(learned, scale=0.02), 200),
        ("data-free", stochastic(torch.nn.Sequential(*conv[:1], *conv[2:]), seed=1), 0),
        ("frozen", stochastic(torch.nn.Sequential(learned[-1]), scale=0.1), 200),
    ):
        x = frozen_features(learned[:-1], x) if name == "frozen" else x
        history = train(network, x[k:], y[k:], settings)
        weights = of_arrays(t.detach().numpy() for t in network.state_dict().values())
        yield f"{name}: posterior", {"numbers": [weights, [e.bound for e in history]]}
        yield f"{name}: certificate", of_certificate(certify(network, x[k:], y[k:], samples=3))


def table(path: str, n: int = 240) -> None:
    """Write a table of numbers, texts, dates, truth values and missing cells."""
    import numpy as np

    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 3))
    colours, day = np.array(["red", "green", "blue"])[rng.integers(0, 3, n)], rng.integers(1, 28, n)
    lines = ["a,b,c,colour,day,yes,patient,answer"]
    for i in range(n):
        cells = [f"{value:.5f}" for value in x[i]]
        cells[1] = "" if i % 11 == 0 else cells[1]
        label = "ill" if x[i, 0] + (colours[i] == "red") + 0.3 * x[i, 2] > 0.4 else "well"
        cells += [str(colours[i]), f"2024-03-{day[i]:02d}", "yes" if x[i, 2] > 0 else "no"]
        lines.append(",".join([*cells, f"p{i // 3}", label]))
    Path(path).write_text("\n".join(lines) + "\n")


def train_and_check(
    name: str, given: list[object], certified: list[list[object]], data: str
) -> Iterator[tuple[str, Facts]]:
    """Train by the shell, certify in several ways, verify in full and predict."""
    folder = name.replace(" ", "-").replace(",", "")
    code, _, err = run("train", *given, "--out", folder, "--quiet")
    last = err.strip().splitlines()[-1:] if code else []
    yield f"{name}: train", {"numbers": code, "words": last}
    for k, options in enumerate(certified):
        code, _, err = run("certify", folder, *options, "--json")
        words = " ".join(map(str, options))
        last = err.strip().splitlines()[-1:] if code else []
        yield f"{name}: certify {words}", of_folder(Path(folder)) | {"words": last}
        full = ("--full",) if k == len(certified) - 1 else ()
        yield f"{name}: verify {words}", of_verify(folder, *full)
    code, _, _ = run("predict", folder, data, "--out", "labels.csv")
    labels = Path("labels.csv").read_bytes() if code == 0 else b""
    yield f"{name}: predict", {"numbers": [code, hashed(labels)]}


def shell() -> Iterator[tuple[str, Facts]]:
    """Runs by the shell: digits and tables, with learned and data-free priors."""
    table("table.csv")
    small = ["--epochs", 2, "--widths", "12", "-T", 2, "--evaluation-samples", 2]
    digits = ["--dataset", "digits", *small]
    few = ["-T", 3]
    rows = ["--dataset", "table.csv", "--drop", "day"]
    mine = [*rows, "--drop", "patient", *small]
    learned = [*digits, "--prior-fraction", 0.5, "--prior-epochs", 3]
    sign = ["--dataset", "digits", "--epochs", 1, "--widths", "3,2", "--activation", "sign"]
    conv = ["--dataset", "ten-digits", "--network", "conv", "--channels", "3", "--kernels", "3"]
    conv += ["--strides", 2, "--pooling", 2, "--epochs", 1, "-T", 2, "--evaluation-samples", 2]
    disintegrated = ["--bound", "disintegrated", "--networks", 2]
    yield from train_and_check(
        "digits", digits, [few, ["--bound", "first-order", *few], disintegrated], "digits"
    )
    yield from train_and_check(
        "digits, scales",
        [*digits, "--prior-scale", "0.5,1"],
        [["--per-class", *few]],
        "digits",
    )
    yield from train_and_check(
        "digits, learned",
        learned,
        [[], ["--bound", "catoni-fixed", *few], ["--bound", "disintegrated-fixed"]],
        "digits",
    )
    yield from train_and_check("digits, exact", sign, [["--exact"]], "digits")
    yield from train_and_check(
        "conv", [*conv, "--batch-norm", "--prior-fraction", 0.5, "--prior-epochs", 2],
        [["--bound", "held-out"], ["--bound", "small-kl", *few]], "ten-digits",
    )  # fmt: skip
    yield from train_and_check(
        "table",
        [*mine, "--prior-epochs", 5],
        [[], ["--bound", "held-out", "--replace", "--per-class"]],
        "table.csv",
    )
    yield from train_and_check(
        "table, free", [*mine, "--prior-fraction", 0, "--drop", "b"], [few], "table.csv"
    )
    yield from train_and_check(
        "table, groups",
        [*rows, "--group", "patient", *small, "--prior-epochs", 5],
        [["--bound", "held-out-mean"]],
        "table.csv",
    )
    model = [*rows, "--drop", "patient", "--model"]
    for kind, options in {
        "linear": ["--per-class", "--cost", "ill=3"],
        "forest": ["--target-error", "0.1"],
    }.items():
        yield from train_and_check(f"model {kind}", [*model, kind, *options], [[]], "table.csv")
    grouped = [*rows, "--group", "patient", "--model", "linear"]
    yield from train_and_check("model, groups", grouped, [["--delta", "0.1"]], "table.csv")


def of_classifier(model: Any, x: Any, y: Any, groups: Any = None) -> Iterator[tuple[str, Facts]]:
    """Fit, save, verify and load a classifier, and predict with both."""
    model.fit(x, y, groups) if groups is not None else model.fit(x, y)
    yield "certificate", of_certificate(model.certificate_)
    several = dict(getattr(model, "certificates_", None) or {})
    several |= {f"class {k}": v for k, v in getattr(model, "class_certificates_", {}).items()}
    for name in ("answered_certificate_", "unanswered_certificate_"):
        if hasattr(model, name):
            several[name] = getattr(model, name)
    for name, certificate in several.items():
        yield f"certificate of {name}", of_certificate(certificate)
    labels = model.predict(x)
    yield "predictions", {"numbers": [hashed(str(labels.tolist()).encode())]}
    if hasattr(model, "predict_proba"):
        yield "probabilities", {"numbers": of_arrays([model.predict_proba(x)])}


def classifiers() -> Iterator[tuple[str, Facts]]:
    """CertifiedClassifier with each way to choose, with groups, costs and classes."""
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_breast_cancer, load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    from pacbayes import CertifiedClassifier, load

    table("table.csv")
    rows = pd.read_csv("table.csv", parse_dates=["day"]).drop(columns="patient")
    frame = rows.drop(columns="answer"), rows["answer"]
    x, y = load_breast_cancer(return_X_y=True)
    three = load_wine(return_X_y=True)
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    candidates = {"logistic": logistic, "bayes": GaussianNB(),
                  "tree": DecisionTreeClassifier(max_depth=3, random_state=0)}  # fmt: skip
    kinds: dict[str, tuple[dict[str, Any], Any]] = {
        "alone": ({"estimator": logistic}, (x, y)),
        "bound": ({"candidates": candidates}, (x, y)),
        "bound, no mean": ({"candidates": candidates, "average": False}, (x, y)),
        "shares": ({"candidates": candidates, "shares": [0.2, 0.2, 0.1, 0.5]}, (x, y)),
        "cross-validation": ({"candidates": candidates, "choose": "cross-validation"}, (x, y)),
        "vote": ({"candidates": candidates, "choose": "vote"}, (x, y)),
        "vote, three": ({"candidates": candidates, "choose": "vote"}, three),
        "classes": ({"candidates": candidates, "per_class": True}, three),
        "costs": ({"candidates": candidates, "costs": [[0, 1], [7, 0]]}, (x, y)),
        "abstaining": ({"estimator": logistic, "target_error": 0.02}, (x, y)),
        "groups": ({"candidates": candidates, "bound_fraction": 0.4}, (x, y, np.arange(569) // 2)),
        "costs, groups": (
            {"estimator": logistic, "costs": [[0, 1], [7, 0]]}, (x, y, np.arange(569) // 2)),
        "default": ({}, three),
        "frame": ({}, frame),
    }  # fmt: skip
    for name, (arguments, data) in kinds.items():
        model = CertifiedClassifier(random_state=0, **arguments)
        for part, facts in of_classifier(model, *data):
            yield f"{name}: {part}", facts
        folder = name.replace(" ", "").replace(",", "-")
        model.save(folder, data[0])
        yield f"{name}: verify", of_verify(folder, "--full")
        same = (load(folder).predict(data[0]) == model.predict(data[0])).all()
        yield f"{name}: loaded", {"numbers": bool(same)}


def stochastic_classifiers() -> Iterator[tuple[str, Facts]]:
    """PACBayesClassifier with every predictor, preprocessing and network."""
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.preprocessing import MinMaxScaler

    from pacbayes import PACBayesClassifier

    x, y = load_breast_cancer(return_X_y=True)
    images = load_digits(return_X_y=True)
    some = images[0][:500].reshape(-1, 1, 8, 8), images[1][:500]
    kinds: dict[str, tuple[dict[str, Any], Any]] = {
        "best": ({}, (x, y)),
        "fixed": ({"predictor": "fixed", "activation": "sign"}, (x, y)),
        "drawn": ({"predictor": "drawn", "priors": 3}, (x, y)),
        "vote": ({"predictor": "vote", "votes": 5, "widths": (9,)}, (x, y)),
        "randomised": ({"predictor": "randomised", "votes": 5, "activation": "sigmoid"}, (x, y)),
        "data-free": ({"prior_fraction": 0, "preprocessing": None}, (x / 1000, y)),
        "scaled": ({"preprocessing": MinMaxScaler(), "delta": 0.01}, (x, y)),
        "conv": ({"network": "conv", "epochs": 1, "prior_epochs": 1}, some),
    }
    for name, (arguments, data) in kinds.items():
        given = {"random_state": 0, "epochs": 2, "prior_epochs": 4} | arguments
        model = PACBayesClassifier(**given)
        for part, facts in of_classifier(model, *data):
            yield f"{name}: {part}", facts
        weights = of_arrays(t.detach().numpy() for t in model.network_.state_dict().values())
        yield f"{name}: posterior", {"numbers": weights}
        if name != "scaled":
            model.save(name, *data)
            yield f"{name}: saved", of_folder(Path(name))
            yield f"{name}: verify", of_verify(name, "--full")


def predictors() -> Iterator[tuple[str, Facts]]:
    """Predictors of any kind."""
    import numpy as np

    from pacbayes import certify_predictor

    x = np.random.default_rng(0).random((700, 2))
    y = (x[:, 0] > 0.5).astype(int)
    costs, groups = (
        {"classes": [0, 1], "costs": [[0, 2.5], [1, 0]]},
        {"groups": np.arange(700) // 4},
    )
    for name, given in {
        "plain": {},
        "delta": {"delta": 1e-6},
        "groups": groups,
        "costs": costs,
        "costs, groups": costs | groups,
    }.items():
        yield name, of_certificate(certify_predictor(lambda x: (x[:, 0] > 0.53) * 1, x, y, **given))


def committed() -> Iterator[tuple[str, Facts]]:
    """Folders of earlier formats, those of `results/`, and the paper's tables, of each version."""
    import pacbayes

    root = Path(pacbayes.__file__).parents[2]
    for archive in sorted((root / "tests/formats").glob("*.zip")):
        with zipfile.ZipFile(archive) as members:
            members.extractall(archive.stem)
        with contextlib.chdir(archive.stem):
            data = next(Path().glob("data.*"), "digits")
            yield f"{archive.stem}: verify", of_verify("run")
            yield f"{archive.stem}: verify in full", of_verify("run", "--full")
            code, _, _ = run("predict", "run", data, "--out", "labels.csv")
            labels = Path("labels.csv").read_bytes() if code == 0 else b""
            yield f"{archive.stem}: predict", {"numbers": [code, hashed(labels)]}
            code, *_ = run("certify", "run", "-T", 2)
            yield f"{archive.stem}: certify", of_folder(Path("run")) | {"words": [str(code)]}
            yield f"{archive.stem}: verify again", of_verify("run", "--full")
    for path in sorted((root / "results").rglob("run.json")):
        said = of_verify(path.parent)
        said["words"] = [word.replace(f"{root}/", "") for word in said["words"]]
        yield str(path.parent.relative_to(root / "results")), said
    for what in ("table1", "table2"):
        given = "--out", root / "results/paper", "--as-is", "--format", "csv"
        code, out, _ = run("reproduce", what, *given)
        rows = out.splitlines()[1:] or [str(code)]  # of finished columns: others gain repeats
        yield what, {"numbers": [row for row in rows if not row.startswith(_GROWING)]}


INPUTS: dict[str, Callable[[], Iterator[tuple[str, Facts]]]] = {
    "bounds": bounds_alone,
    "networks": networks,
    "modules": modules,
    "shell": shell,
    "classifiers": classifiers,
    "stochastic": stochastic_classifiers,
    "predictors": predictors,
    "committed": committed,
}


def facts(names: list[str]) -> dict[str, Facts]:
    """Return the facts of this process's version."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, Facts] = {}
    for name in names:
        torch.manual_seed(0)
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            try:
                for what, fact in INPUTS[name]():
                    found[f"{name}: {what}"] = json.loads(json.dumps(fact, default=repr))
            except Exception as error:  # what this version cannot do is a fact like others
                found[f"{name}: ended early"] = {"numbers": f"{type(error).__name__}: {error}"}
        print(f"  {name}: {time.process_time() - start:.0f} s", file=sys.stderr)
    return found


def of_version(source: Path, names: list[str]) -> dict[str, Facts]:
    """Return the facts of a version, from a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--facts", *names]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    read: dict[str, Facts] = json.loads(ended.stdout.splitlines()[-1])
    return read


def differences(before: Facts | None, after: Facts | None) -> tuple[list[str], list[str]]:
    """Return what changed between facts, and what is only said in other words."""
    if before is None or after is None:
        return ([], ["only after"]) if before is None else (["is missing"], [])
    changed, reworded = [], []
    old, new = before.get("numbers"), after.get("numbers")
    if old != new:
        pairs = isinstance(old, dict) and isinstance(new, dict)
        parts = [k for k in old if old[k] != new.get(k)] if pairs else None
        shown = [(k, old[k], new.get(k)) for k in parts] if parts is not None else [(old, new)]
        changed += [f"{str(each)[:300]}" for each in shown]
    if lost := sorted(set(before.get("floats", ())) - set(after.get("floats", ()))):
        changed.append(f"numbers that are gone: {', '.join(lost[:6])}")
    words = Counter(before.get("words", ())), Counter(after.get("words", ()))
    reworded += [f"- {word[:200]}" for word in words[0] - words[1]]
    reworded += [f"+ {word[:200]}" for word in words[1] - words[0]]
    return changed, reworded


def main() -> int:
    """Compare two versions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--before", type=Path, help="src of the earlier version, or a kept file")
    parser.add_argument("--after", type=Path, default=ROOT / "src", help="src of the later version")
    parser.add_argument("--keep", type=Path, help="write the later version's numbers here")
    parser.add_argument("--only", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--words", action="store_true", help="show what is said in other words")
    parser.add_argument("--facts", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.facts:
        print(json.dumps(facts(given.facts)))
        return 0
    after = of_version(given.after, given.only)
    if given.keep:
        given.keep.write_text(json.dumps(after, indent=1) + "\n")
    if not given.before:
        return 0
    if given.before.is_file():
        before = json.loads(given.before.read_text())
        before = {k: v for k, v in before.items() if k.split(": ")[0] in given.only}
    else:
        before = of_version(given.before, given.only)
    found = {k: differences(before.get(k), after.get(k)) for k in dict.fromkeys([*before, *after])}
    for name, (changed, words) in found.items():
        for line in words if given.words else ():
            print(f"said in other words: {name}: {line}")
        for line in changed:
            print(f"CHANGED: {name}: {line}")
    bad, reworded = (sum(bool(both[which]) for both in found.values()) for which in (0, 1))
    print(f"{len(found)} facts compared, {bad} changed; {reworded} said in other words (--words)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
