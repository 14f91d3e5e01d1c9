"""Measure how soon each recipe reaches a bound: `make recipes`.

Every run uses the fast protocol on binary MNIST with seed 0, on two cores, and is evaluated every
second epoch. Unless a row says otherwise, runs have learned scales, a learning rate of 0.03,
batches of 512 and three hidden layers of 100 units. Relu uses T = 1; sigmoid and sign use T = 4,
sign with local expectation. Bounds are Catoni's without a Monte-Carlo term, as shown in training.
Seconds are training time without evaluations. The script can be resumed and takes about twenty
minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pacbayes import Settings, Trainer, build_network, data
from pacbayes.folders.record import versions

HERE = Path(__file__).parent
STORE = HERE / "recipes.jsonl"
LEVELS = {
    "relu": (0.155, 0.145, 0.135),
    "sigmoid": (0.188, 0.16, 0.15),
    "sign": (0.217, 0.175, 0.16),
}

BASE: dict[str, dict[str, Any]] = {
    "relu": {"samples": 1, "kl_warmup": 0.1},
    "sigmoid": {"samples": 4, "kl_warmup": 0.3},
    "sign": {"samples": 4, "kl_warmup": 0.3, "estimator": "local-expectation"},
}
WIDTHS = [50], [100], [300], [100, 100], [100, 100, 100]
RUNS: list[dict[str, Any]] = [
    *({"activation": "relu", "epochs": e} for e in (15, 30, 60, 120)),
    *({"activation": "relu", "epochs": 30, "samples": T} for T in (2, 4)),
    *({"activation": "relu", "epochs": 30, "batch_size": b} for b in (128, 256, 1024)),
    *({"activation": "relu", "epochs": 30, "learning_rate": r} for r in (0.01, 0.06)),
    *({"activation": "relu", "epochs": 60, "samples": T} for T in (2, 4, 8)),
    {"activation": "relu", "epochs": 100, "samples": 4},
    *({"activation": "relu", "epochs": 20, "samples": 4, "widths": w} for w in WIDTHS),
    {"activation": "relu", "epochs": 60, "learned_scale": False},
    {"activation": "relu", "epochs": 60, "learned_scale": False, "samples": 4},
    {"activation": "relu", "epochs": 100, "learned_scale": False, "samples": 4},
    {"activation": "relu", "epochs": 60, "learned_scale": False, "learning_rate": 0.01},
    *({"activation": "sigmoid", "epochs": e} for e in (15, 40, 80)),
    *({"activation": "sigmoid", "epochs": 40, "samples": T} for T in (1, 10)),
    *({"activation": "sigmoid", "epochs": 40, "learning_rate": r} for r in (0.01, 0.06)),
    {"activation": "sigmoid", "epochs": 40, "kl_warmup": 0.0},
    {"activation": "sigmoid", "epochs": 80, "samples": 2},
    *({"activation": "sign", "epochs": e} for e in (15, 40, 80)),
    *({"activation": "sign", "epochs": 40, "samples": T} for T in (2, 10)),
    {"activation": "sign", "epochs": 40, "samples": 30},
    {"activation": "sign", "epochs": 80, "samples": 10},
    *({"activation": "sign", "epochs": 40, "learning_rate": r} for r in (0.01, 0.06)),
    {"activation": "sign", "epochs": 40, "estimator": "leave-one-out"},
    {"activation": "sign", "epochs": 40, "estimator": "leave-one-out", "samples": 10},
    {"activation": "sign", "epochs": 40, "estimator": "straight-through", "samples": 1},
    {"activation": "sign", "epochs": 15, "estimator": "straight-through", "samples": 2},
    {"activation": "sign", "epochs": 40, "estimator": "straight-through", "samples": 2},
]


def done() -> dict[str, dict[str, Any]]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {json.dumps(r["run"], sort_keys=True): r for r in map(json.loads, lines)}


def run(changes: dict[str, Any]) -> dict[str, Any]:
    deep = {"widths": (100, 100, 100), "evaluate_every": 2}
    given = deep | BASE[changes["activation"]] | changes
    settings = Settings.of("fast", given.pop("activation"), **given)
    x, y = data.load("binary-mnist").tensors()
    trainer = Trainer(build_network(settings, x.shape[1]), x, y, settings)
    for _ in trainer.steps():
        pass
    history = [[e.epoch, round(e.seconds, 2), round(e.bound, 5)] for e in trainer.history]
    return {"run": changes, "versions": versions(), "history": history}


def row(result: dict[str, Any]) -> str:
    changes, history = dict(result["run"]), result["history"]
    activation = changes.pop("activation")
    reached = [
        next((f"{s:.0f} s" for _, s, bound in history if bound <= level), "–")
        for level in LEVELS[activation]
    ]
    what = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in changes.items())
    best = min(bound for *_, bound in history)
    return f"| {what} | {' | '.join(reached)} | {100 * best:.2f} % | {history[-1][1]:.0f} s |\n"


def main() -> None:
    for changes in RUNS:
        if json.dumps(changes, sort_keys=True) not in done():
            with STORE.open("a") as store:
                store.write(json.dumps(run(changes)) + "\n")
    results = done()
    text = "# Recipes\n\n" + (__doc__ or "")
    for activation, levels in LEVELS.items():
        heads = " | ".join(f"to {100 * level:g} %" for level in levels)
        text += f"\n## {activation}\n\n| changed | {heads} | best | whole run |\n"
        text += "|---|" + "---|" * 5 + "\n"
        wanted = [r for r in RUNS if r["activation"] == activation]
        text += "".join(row(results[json.dumps(r, sort_keys=True)]) for r in wanted)
    (HERE / "recipes.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
