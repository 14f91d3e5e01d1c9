"""Compare ways of learning a prior, on the prior's own half of the data: `make priors`.

The prior gets the half of the images that `--prior-fraction 0.5 --seed 0` gives it. Two thirds of
this half train the prior. The last third, 10 000 images, measures its risk: the linear loss of the
stochastic network at the prior's scale, with ten draws for each image. The other half of the data,
which certificates are about, is never used. The script can be resumed and takes about twenty
minutes.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from pacbayes import Settings, data
from pacbayes.folders.record import versions
from pacbayes.networks.risk import empirical_risk
from pacbayes.training.priors import Teacher, split

HERE = Path(__file__).parent
STORE = HERE / "priors.jsonl"
BASE = {"prior_epochs": 60, "prior_rate": 0.01, "prior_scale": 0.03, "samples": 2}
CHANGES: list[dict[str, Any]] = [
    {},
    {"prior_augmentation": "none"},
    *({"prior_rate": r} for r in (0.003, 0.02, 0.04)),
    *({"prior_scale": s} for s in (0.01, 0.02, 0.05, 0.08)),
    *({"samples": T} for T in (1, 4)),
    {"batch_size": 100},
    {"prior_epochs": 150},
    {"prior_epochs": 150, "prior_rate": 0.02},
]
RUNS = [{"dataset": d, **change} for d in ("binary-mnist", "mnist") for change in CHANGES]


def judged(given: dict[str, Any]) -> dict[str, Any]:
    """Learn a prior on two thirds of its part and measure its risk on the last third."""
    changes = dict(given)
    examples = data.load(changes.pop("dataset"))
    x, y = examples.tensors()
    own, _ = split(len(x), 0.5, 0)
    learn, judge = (torch.from_numpy(own[part]) for part in split(len(own), 2 / 3, 0))
    asked = {"prior_fraction": 0.5, "prior_augmentation": "images", **BASE, **changes}
    settings, start = Settings.of("fast", "relu", **asked), time.perf_counter()
    teacher = Teacher(x[learn].contiguous(), y[learn], settings, len(examples.classes))
    for _ in teacher.steps():
        pass
    seconds = time.perf_counter() - start
    torch.manual_seed(0)
    risks = [empirical_risk(teacher.network, x[i], y[i], 10).mean for i in (learn, judge)]
    return {"learned": risks[0], "judged": risks[1], "seconds": seconds}


def main() -> None:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    found = {json.dumps(r["given"], sort_keys=True): r for r in map(json.loads, lines)}
    for given in RUNS:
        key = json.dumps(given, sort_keys=True)
        if key not in found:
            found[key] = {"given": given, **judged(given), "versions": versions()}
            with STORE.open("a") as file:
                file.write(json.dumps(found[key]) + "\n")
            print(given, f"{found[key]['judged']:.4f}", flush=True)
    text = ["# Learning a prior\n", (__doc__ or "").strip() + "\n"]
    text += [f"Unless a row says otherwise: {json.dumps(BASE)}, with augmented images.\n"]
    text += [
        "| data | change | risk, training part | risk, last third | seconds |",
        "|---|---|---|---|---|",
    ]
    for given in RUNS:
        r = found[json.dumps(given, sort_keys=True)]
        change = ", ".join(f"{k} {v}" for k, v in given.items() if k != "dataset") or "–"
        risks = f"{100 * r['learned']:.2f} % | {100 * r['judged']:.2f} %"
        text.append(f"| {given['dataset']} | {change} | {risks} | {r['seconds']:.0f} |")
    (HERE / "priors.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
