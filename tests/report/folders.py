"""Make folders of every kind that a page can be about."""

import json
from dataclasses import asdict, replace

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pacbayes import CertifiedClassifier, Settings, folders
from pacbayes.data import DataSource
from pacbayes.folders import prediction
from pacbayes.folders.fitting import read_examples, train_model
from pacbayes.folders.preparation import prepare
from pacbayes.paper.columns import chosen

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>')


def make(folder, source, certified=("small-kl", "tandem", "disintegrated"), **changes):
    """Train a small run and issue the certificates asked for."""
    settings = {"widths": (4,), "epochs": 6, "evaluate_every": 2, "batch_size": 32, **changes}
    data = source.load()
    settings = Settings.of("fast", "relu", classes=len(data.classes), **settings)
    run = prepare(folder, settings, source, data)
    for _ in folders.train_run(run, data):
        pass
    network = run.load_network()
    for bound in certified:
        shared = {"delta": 0.05, "samples": 5, "networks": 2}
        folders.certify_run(run, network, data, bound=bound, **shared)
        prediction.test_errors(run, network, data)
    return run


def hostile_source(folder, test=True):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = np.where(x[:, 0] > 0, *HOSTILE)
    np.savez(folder / "data & <b>.npz", x=x, y=y)
    np.savez(folder / "test.npz", x=x[:20], y=y[:20])
    path = str(folder / "data & <b>.npz")
    return DataSource(path, test=str(folder / "test.npz") if test else None)


def table_model(table_file, **given):
    folder = table_file.parent / "-".join(["model", *given])
    train_model(folder, "linear", read_examples(str(table_file)), str(table_file), **given)
    return folder


def python_model(folder, copies=False, **given):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = np.where(x[:, 0] + rng.normal(size=300) / 5 > 0, *HOSTILE)
    if copies:  # for which the certificate is withheld
        x[150:], y[150:] = x[:150], y[:150]
    candidates = {
        "a <b>tree</b>": DecisionTreeClassifier(max_depth=3, random_state=0),
        "linear": LogisticRegression(),
        "stump": DecisionTreeClassifier(max_depth=1, random_state=0),
    }
    CertifiedClassifier(candidates=candidates, random_state=0, **given).fit(x, y).save(folder)
    return folder


def fill_store(store):
    put(store, "fix-lambda-sign", 1)
    put(store, "fix-lambda-sign", 2, bound=0.3)
    put(store, "fast-relu", 1)
    put(store, "fix-lambda-relu", 1, "digits", epochs=5)
    return store


def put(store, column, repeat, dataset="binary-mnist", bound=0.2, epochs=None, **changes):
    """Put a finished run into a store."""
    c = replace(chosen(column, dataset, epochs), repeat=repeat, **changes)
    place = store.place(c)
    place.mkdir(parents=True)
    (place / "configuration.json").write_text(json.dumps(asdict(c)))
    summary = {"learned": True, "train_linear": 0.08, "bound": bound, "kl": 3500.0}
    summary |= {"test_zero_one": 0.09, "vote_zero_one": 0.06, "small_kl": 0.21}
    summary |= {"certificate": 0.22, "seconds": 60.0, "attempts": 1, "epoch": 5, "versions": {}}
    (place / "summary.json").write_text(json.dumps(summary))
    evaluation = {"epoch": 5, "risk": 0.08, "kl": 1.0, "bound": bound or 1.0, "lam": 1.0}
    evaluation |= {"learning_rate": 0.1, "seconds": 1.0}
    (place / "history.json").write_text(json.dumps([evaluation, {**evaluation, "epoch": 10}]))


COSTS = [[0, 2], [5, 0]]
KINDS = {  # of folders that have a page, and the title of each
    "network": "data & <b>.npz, relu",
    "images": "ten-digits, linear",
    "table-network": "towns.csv, relu",
    "table-model": "towns.csv, logistic regression",
    "mean": "300 examples, mean of 3 models",
    "vote": "300 examples, weighted vote of 3 models",
    "costs": "300 examples, stump",
    "doubt": "300 examples, mean of 3 models",
    "store": "store",
}
