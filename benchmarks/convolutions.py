"""Certify convolutional networks on MNIST, with data-free and with learned priors.

```
python benchmarks/convolutions.py binary-free ten-free binary-learned ten-learned
```

Data-free priors: a 5×5 convolution of stride 2 to 16 channels, a 3×3 one of stride 2 to 32, and the
aggregated last layer; all 60 000 images train and bound it. Learned priors: five 3×3 convolutions
with batch norm learn on 30 000 augmented images and are certified on the other 30 000, by the
better of the held-out theorem (nine tenths of δ) and of one network drawn near them.

δ is 0.05 in total, the Monte-Carlo term and the choice of the prior's seed included. A run that was
interrupted goes on where it stopped (`--folder` has its checkpoints). Results are appended to
convolutions.jsonl beside this file, and convolutions.md is written from them. The test error is
that of the vote of 50 draws, or of the network at the certified weights.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes import (
    Certificate,
    Network,
    Settings,
    Trainer,
    certify,
    learn_prior,
    majority_vote,
    stochastic,
)
from pacbayes.certificates.kept import certify_network
from pacbayes.data import Dataset, load
from pacbayes.data.augmentation import moved_images
from pacbayes.files import load_tensors, save_tensors
from pacbayes.networks.weights import scores
from pacbayes.runs.versions import versions
from pacbayes.training.loop import run_to_end
from pacbayes.training.priors import split

HERE = Path(__file__).parent
STORE = HERE / "convolutions.jsonl"
FREE = {
    "binary-free": {"dataset": "binary-mnist", "epochs": 30},
    "ten-free": {"dataset": "mnist", "epochs": 21},
}
LEARNED = {
    "binary-learned": {"dataset": "binary-mnist", "epochs": 20},
    "ten-learned": {"dataset": "mnist", "epochs": 20},
}
Result = dict[str, Any]


def small(outputs: int) -> nn.Module:
    """Return the network for a data-free prior: every weight costs, so it has few."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 5 * 5, outputs),
    )


def deep(outputs: int) -> nn.Module:
    """Return the network for a learned prior: its weights cost nothing."""

    def block(inputs: int, width: int, stride: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(width), nn.ReLU()]

    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *block(1, 24, 1),
        *block(24, 32, 2),
        *block(32, 48, 1),
        *block(48, 64, 2),
        *block(64, 64, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * 64, outputs),
    )


def free(data: Dataset, epochs: int, seed: int, samples: int, checkpoint: Path) -> Result:
    """Train near a data-free prior and certify the randomised classifier."""
    x, y = data.tensors()
    classes = len(data.classes)
    network = stochastic(small(1 if classes == 2 else classes), seed=seed)
    settings = Settings.of(
        "fast",
        classes=classes,
        epochs=epochs,
        samples=1,
        learning_rate=0.01,
        batch_size=256,
        kl_warmup=0.1,
        evaluate_every=epochs,
        evaluation_samples=1,
        seed=seed,
    )
    trainer = Trainer(network, x, y, settings)
    trained(trainer, checkpoint)
    start = time.process_time()
    certificate = certify(
        network, x, y, samples=samples, bound="best-of", monte_carlo="stratified-bernstein"
    )
    x_test, y_test = data.tensors("test")
    torch.manual_seed(seed)
    vote = majority_vote(network.eval(), x_test, 50)
    return summary(certificate) | {
        "test": network.task.wrong(vote, y_test).double().mean().item(),
        "train_seconds": trainer.seconds,
        "certify_cpu_seconds": time.process_time() - start,
    }


def trained(trainer: Trainer, checkpoint: Path) -> None:
    """Train to the end, from the checkpoint if there is one."""
    if checkpoint.exists():
        trainer.restore(*load_tensors(checkpoint))
    for progress in run_to_end(trainer, lambda: save_tensors(checkpoint, *trainer.state())):
        if progress.batch == progress.batches:
            print(f"epoch {progress.epoch}, {trainer.seconds:.0f} s", flush=True)


def learned(data: Dataset, epochs: int, seed: int, samples: int, checkpoint: Path) -> Result:
    """Learn a prior on half of the images; certify on the other half what is better."""
    x, y = data.tensors()
    own, bound = (torch.from_numpy(part) for part in split(len(x), 0.5, seed))
    classes, start = len(data.classes), time.perf_counter()
    torch.manual_seed(seed)
    module = learn_prior(
        deep(1 if classes == 2 else classes),
        x[own],
        y[own],
        epochs=epochs,
        batch_size=128,
        learning_rate=0.005,
        augment=moved_images,
        seed=seed,
        checkpoint=checkpoint,
    )
    seconds = time.perf_counter() - start
    network = stochastic(module, scale=0.003, learned_scale=False)
    cpu = time.process_time()
    certificate, weights = certify_network(network, x[bound], y[bound], sample=(x, y))
    cpu = time.process_time() - cpu
    return summary(certificate) | {
        "test": error(network, weights, *data.tensors("test")),
        "train_seconds": seconds,
        "certify_cpu_seconds": cpu,
    }


def error(network: Network, weights: dict[str, Tensor], x: Tensor, y: Tensor) -> float:
    return network.task.wrong(scores(network.double(), weights, x), y).double().mean().item()


def summary(c: Certificate) -> Result:
    names = ("bound", "bound_name", "risk", "risk_upper", "kl", "n", "draws", "delta", "ledger")
    return {name: getattr(c, name) for name in names} | {"predictor": c.kind.value}


def run(name: str, seed: int, epochs: int, samples: int, folder: Path) -> Result:
    given = FREE.get(name) or LEARNED[name]
    make: Callable[..., Result] = free if name in FREE else learned
    folder.mkdir(parents=True, exist_ok=True)
    data = load(str(given["dataset"]))
    return make(data, epochs, seed, samples, folder / f"{name}-{epochs}-{seed}.safetensors")


def write(found: dict[str, Result]) -> None:
    text = ["# Convolutional networks on MNIST\n", (__doc__ or "").strip() + "\n"]
    text += [
        "| run | epochs | seed | certificate | theorem | risk | Monte-Carlo | KL | test error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in sorted(found.values(), key=_key):
        bound = math.ceil(1e4 * r["bound"]) / 100
        cells = [r["name"], r["epochs"], r["seed"], f"{bound:.2f} %", r["bound_name"]]
        term = r["risk_upper"] - r["risk"]
        cells += [f"{100 * r['risk']:.2f} %", f"{100 * term:.2f} points", f"{r['kl']:.0f}"]
        text.append("| " + " | ".join(map(str, [*cells, f"{100 * r['test']:.2f} %"])) + " |")
    (HERE / "convolutions.md").write_text("\n".join(text) + "\n")


def _key(given: Result) -> str:
    return f"{given['name']}, {given['epochs']} epochs, seed {given['seed']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*FREE, *LEARNED])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--samples", type=int, default=40, help="draws of every 64 images")
    parser.add_argument("--folder", type=Path, default=Path("build/convolutions"))
    arguments = parser.parse_args()
    for name in arguments.names:
        lines = STORE.read_text().splitlines() if STORE.exists() else []
        epochs = arguments.epochs or int((FREE.get(name) or LEARNED[name])["epochs"])
        given = {"name": name, "epochs": epochs, "seed": arguments.seed}
        found = {_key(r): r for r in map(json.loads, lines)}
        key = _key(given)
        if key not in found:
            result = run(name, arguments.seed, epochs, arguments.samples, arguments.folder)
            found[key] = given | result | {"versions": versions()}
            with STORE.open("a") as file:
                file.write(json.dumps(found[key]) + "\n")
        write(found)
        print(key + ":", f"at most {math.ceil(1e4 * found[key]['bound']) / 100:.2f} %", flush=True)


if __name__ == "__main__":
    main()
