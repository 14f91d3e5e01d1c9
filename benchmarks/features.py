"""Certify networks on fixed wavelet features of binary MNIST, with data-free priors.

```
python benchmarks/features.py linear relu
```

The features are scattering coefficients of orders 0 to 2 (`examples/scattering.py`; two octaves, 6
angles, averages on a grid of 7 × 7). Each of the 49 paths is divided by its mean on 500 images of
white noise of seed 0, and all are multiplied by one scale: no image of MNIST has a say in them. All
60 000 images train and bound the network. δ is 0.05 in total. It pays for the Monte-Carlo term, the
seed of the prior and eight priors, since scales of the features were tried on the bound set.

Results are appended to features.jsonl beside this file, and features.md is written from them. The
test error is that of the exact aggregate without hidden units, else of the vote of 50 draws.
`--save features.npz` writes the features for `pacbayes train --dataset features.npz`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pacbayes import (
    Settings,
    Trainer,
    build_network,
    certify,
    frozen_features,
    frozen_sha256,
    majority_vote,
)
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.data import load
from pacbayes.files import load_tensors, save_tensors
from pacbayes.runs.versions import versions
from pacbayes.training.loop import run_to_end

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "examples"))

from scattering import Scattering  # noqa: E402

STORE = HERE / "features.jsonl"
PRIORS = 8  # scales and networks that were tried on the bound set, and some to spare
RUNS: dict[str, dict[str, Any]] = {
    "linear": {"widths": (), "epochs": 20},
    "relu": {"widths": (100,), "epochs": 30},
}
Result = dict[str, Any]


class Features(nn.Module):
    """Scattering coefficients of MNIST, each path over its mean on white noise, times a scale."""

    factors: Tensor

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.body = Scattering((28, 28), scales=2, angles=6)
        noise = torch.randn(500, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        means = self.body(noise).view(500, -1, 49).mean((0, 2))
        means[0] = 1.0  # the image itself, whose mean is zero
        self.register_buffer("factors", (scale / means).repeat_interleave(49))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x.unflatten(1, (1, 28, 28))) * self.factors


def run(name: str, given: Result, samples: int, checkpoint: Path) -> Result:
    """Train near a data-free prior and certify the randomised classifier."""
    data, body = load("binary-mnist"), Features(given["scale"])
    (pixels, y), (pixels_test, y_test) = data.tensors(), data.tensors("test")
    start = time.perf_counter()
    x, x_test = (frozen_features(body, p, batch_size=50, cache=True) for p in (pixels, pixels_test))
    seconds = time.perf_counter() - start
    settings = Settings.of(
        "fast",
        widths=RUNS[name]["widths"],
        epochs=given["epochs"],
        samples=2,
        learning_rate=0.01,
        batch_size=256,
        kl_warmup=0.1,
        evaluate_every=given["epochs"],
        evaluation_samples=1,
        seed=given["seed"],
    )
    network = build_network(settings, x.shape[1], 2)
    trainer = Trainer(network, x, y, settings)
    if checkpoint.exists():
        trainer.restore(*load_tensors(checkpoint))
    for progress in run_to_end(trainer, lambda: save_tensors(checkpoint, *trainer.state())):
        if progress.batch == progress.batches:
            print(f"epoch {progress.epoch}, {trainer.seconds:.0f} s", flush=True)
    c = certify(
        network,
        x,
        y,
        samples=samples,
        priors=PRIORS,
        sample=(pixels, y),
        assumptions=Assumptions("binary-mnist", frozen_sha256=frozen_sha256(body)),
    )
    torch.manual_seed(given["seed"])
    vote = majority_vote(network.eval(), x_test, 50)
    names = ("bound", "bound_name", "risk", "risk_upper", "kl", "n", "draws", "delta", "ledger")
    return {key: getattr(c, key) for key in names} | {
        "frozen_sha256": c.assumptions.frozen_sha256,
        "test": network.task.wrong(vote, y_test).double().mean().item(),
        "features_seconds": seconds,
        "train_seconds": trainer.seconds,
        "versions": versions(),
    }


def write(found: list[Result]) -> None:
    text = ["# Fixed wavelet features of binary MNIST\n", (__doc__ or "").strip() + "\n"]
    text += [
        "| network | scale | epochs | seed | certificate | risk | Monte-Carlo | KL | test error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(found, key=_key):
        bound, term = math.ceil(1e4 * r["bound"]) / 100, r["risk_upper"] - r["risk"]
        cells = [r["name"], r["scale"], r["epochs"], r["seed"], f"{bound:.2f} %"]
        cells += [f"{100 * r['risk']:.2f} %", f"{100 * term:.2f} points", f"{r['kl']:.0f}"]
        text.append("| " + " | ".join(map(str, [*cells, f"{100 * r['test']:.2f} %"])) + " |")
    (HERE / "features.md").write_text("\n".join(text) + "\n")


def save(path: Path, scale: float) -> None:
    """Write features and labels, as the command line takes them."""
    x, y = load("binary-mnist").tensors()
    features = frozen_features(Features(scale), x, batch_size=50, cache=True)
    np.savez(path, x=features.numpy(), y=y.numpy().astype(np.int8))


def _key(given: Result) -> str:
    named = (f"{given[name]} {name}" for name in ("scale", "epochs", "seed"))
    return ", ".join([given["name"], *named])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(RUNS))
    parser.add_argument("--scale", type=float, default=0.3, help="of the features")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--samples", type=int, default=100, help="draws for every image")
    parser.add_argument("--folder", type=Path, default=Path("build/features"))
    parser.add_argument("--save", type=Path, help="write the features to this .npz file and stop")
    arguments = parser.parse_args()
    if arguments.save:
        save(arguments.save, arguments.scale)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        epochs = arguments.epochs or RUNS[name]["epochs"]
        given = {"name": name, "scale": arguments.scale, "epochs": epochs, "seed": arguments.seed}
        lines = STORE.read_text().splitlines() if STORE.exists() else []
        found = {_key(r): r for r in map(json.loads, lines)}
        if _key(given) not in found:
            checkpoint = arguments.folder / f"{_key(given).replace(', ', '-')}.safetensors"
            found[_key(given)] = given | run(name, given, arguments.samples, checkpoint)
            with STORE.open("a") as file:
                file.write(json.dumps(found[_key(given)]) + "\n")
        write(list(found.values()))
        bound = math.ceil(1e4 * found[_key(given)]["bound"]) / 100
        print(f"{_key(given)}: at most {bound:.2f} %", flush=True)


if __name__ == "__main__":
    main()
