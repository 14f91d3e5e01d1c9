"""Train PBGNet in ways that the paper's table does not show: `make pbgnet`.

The data and the model are those of the column `pbg`, on binary MNIST with seed 0.

- *Batches of 64*, which the paper's appendix tried for three hidden layers, at every point of the
  search with two or three.
- *Other seeds*, of a point of the search that does not learn with seed 0, and of the next.
- *Reduction on plateau*, the schedule of PBGNet's published code: the rate is halved when its own
  bound has not fallen by 0.0001 for more than so many epochs. It is evaluated after every epoch.

Runs end after ten epochs with a loss above 45 %, as in the paper. The script can be resumed, and
takes about four hours on one core. Numbers given to it choose among the runs, counted from 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pacbayes.data.tasks import Binary
from pacbayes.folders.prediction import VOTES
from pacbayes.folders.record import versions
from pacbayes.paper.baselines import PBGFitting, PBGNet
from pacbayes.paper.columns import Configuration
from pacbayes.paper.execution import examples
from pacbayes.randomness import seeded
from pacbayes.training.loop import Schedule

HERE = Path(__file__).parent
STORE, PAGE = HERE / "pbgnet.jsonl", HERE / "pbgnet.md"
HEADINGS = ("changed", "rate", "T", "layers", "train linear", "test 0-1", "bound 0-1", "KL", "")


def point(rate: float, T: int, layers: int, **changes: Any) -> dict[str, Any]:
    return {"learning_rate": rate, "samples": T, "depth": layers, **changes}


RUNS: list[dict[str, Any]] = [
    *(point(rate, T, 3, batch=64) for rate in (0.1, 0.01, 0.001) for T in (1, 10, 50, 100)),
    *(point(0.01, 100, 1, patience=epochs) for epochs in (20, 5)),
    *(point(rate, T, 2, batch=64) for T in (10, 50, 1, 100) for rate in (0.01, 0.001, 0.1)),
    *(point(0.1, 10, 2, seed=seed) for seed in (1, 2)),
    *(point(0.01, 100, 1, patience=20, seed=seed) for seed in (1, 2)),
]


def plateau(patience: int, threshold: float = 1e-4) -> Schedule:
    """Halve the rate after more than `patience` evaluations that are not lower by `threshold`."""

    def factor(bounds: Sequence[float], done: float) -> float:
        value, best, bad = 1.0, float("inf"), 0
        for bound in bounds:
            best, bad = (bound, 0) if bound < best - threshold else (best, bad + 1)
            if bad > patience:
                value, bad = value / 2, 0
        return value

    return Schedule(factor, gives_up=True)


def run(asked: dict[str, Any]) -> dict[str, Any]:
    changes = dict(asked)
    batch, patience = changes.pop("batch", 256), changes.pop("patience", None)
    seed = changes.pop("seed", 0)
    c = Configuration("pbg", "binary-mnist", None, repeat=seed, **changes)
    train, (x, y) = examples(c)
    updates = {"batch_size": batch} | ({"evaluate_every": 1} if patience else {})
    settings = c.settings().model_copy(update=updates)
    with seeded(settings.seed, "prior"):
        model = PBGNet(train[0].shape[1], settings.widths)
        fitting = PBGFitting(model, *train, settings)
    if patience:
        fitting.schedule = plateau(patience)
    for _ in fitting.steps():
        pass
    best = min(fitting.history, key=lambda e: e.guide)
    model.load_state_dict(model.state_dict() | fitting.best)
    with seeded(settings.seed, "prediction"):
        F = fitting.outputs(x, fitting.evaluation_samples if fitting.biased else VOTES)
    return {
        "run": asked,
        "versions": versions(),
        "learned": not fitting.hopeless,
        "epoch": best.epoch,
        "train_linear": best.risk,
        "test_zero_one": Binary().wrong(F, y).double().mean().item(),
        "bound": best.bound,
        "kl": best.kl,
        "seconds": fitting.seconds,
    }


def done() -> dict[str, dict[str, Any]]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {json.dumps(r["run"], sort_keys=True): r for r in map(json.loads, lines)}


def row(asked: dict[str, Any], result: dict[str, Any] | None) -> str:
    words = {"batch": "batches of", "patience": "plateau, patience", "seed": "seed"}
    changed = ", ".join(f"{word} {asked[k]}" for k, word in words.items() if k in asked)
    where = (changed, f"{asked['learning_rate']:g}", asked["samples"], asked["depth"])
    if result is None:
        return _line((*where, *"––––", "not run"))
    losses = (f"{100 * result[k]:.2f}" for k in ("train_linear", "test_zero_one", "bound"))
    return _line(
        (*where, *losses, f"{result['kl']:.0f}", "" if result["learned"] else "ended early")
    )


def _line(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def page() -> str:
    results = done()
    text = f"# PBGNet, otherwise\n\n{__doc__}\n<!-- table -->\n"
    text += _line(HEADINGS) + _line(["---"] + ["---:"] * 7 + ["---"])
    return text + "".join(row(r, results.get(json.dumps(r, sort_keys=True))) for r in RUNS)


def main() -> None:
    torch.set_num_threads(1)
    for asked in [RUNS[int(i)] for i in sys.argv[1:]] or RUNS:
        if json.dumps(asked, sort_keys=True) not in done():
            result = run(asked)
            with STORE.open("a") as store:
                store.write(json.dumps(result) + "\n")
            PAGE.write_text(page())
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
