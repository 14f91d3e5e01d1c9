"""How long a training step takes, native against torch: `make bench`.

One full step (forward, gradients, KL, Adam) of 784-100-100-100-1 with learned scales at batch
256, on MNIST-like inputs (81 % zeros), one thread. The two engines take turns in one run, so that
a noisy machine disturbs both alike; ratios are medians with the quartiles of the turns.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from pacbayes import Settings, Trainer, build_network
from pacbayes.records import versions

HERE = Path(__file__).parent
CASES = [
    ("relu", 1),
    ("relu", 10),
    ("relu", 100),
    ("sigmoid", 10),
    ("sign", 2),
    ("sign", 10),
    ("sign", 100),
]


def trainers(activation: Any, samples: int) -> dict[str, Trainer]:
    torch.manual_seed(0)
    x = torch.rand(2560, 784) * (torch.rand(2560, 784) < 0.19)
    y = torch.where(torch.rand(2560) < 0.5, 1.0, -1.0)
    made = {}
    for engine in ("torch", "native"):
        settings = Settings.of(
            "fast", activation, samples=samples, engine=engine, batch_size=256, kl_warmup=0.0
        )
        made[engine] = Trainer(build_network(settings, 784), x, y, settings)
    return made


def step(trainer: Trainer, number: int) -> float:
    index = torch.arange(256 * (number % 10), 256 * (number % 10 + 1))
    start = time.perf_counter()
    trainer._weight_step(index, number, 1e-3, 0.5)
    return time.perf_counter() - start


def row(activation: str, samples: int) -> str:
    both = trainers(activation, samples)
    for trainer in both.values():
        step(trainer, 0)
    turns = 60 if samples <= 10 else 12
    times = [{name: step(t, i) for name, t in both.items()} for i in range(turns)]
    low, middle, high = statistics.quantiles([t["native"] / t["torch"] for t in times], n=4)
    return f"| {activation} | {samples} | {middle:.2f} | {low:.2f} – {high:.2f} |\n"


def main() -> None:
    torch.set_num_threads(1)
    v = versions()
    text = "# A training step, native ÷ torch\n\n" + (__doc__ or "").split("\n\n", 1)[1]
    text += f"\ntorch {v['torch']}, {v['instructions']}, one thread.\n\n"
    text += "| units | T | native ÷ torch | quartiles |\n|---|---|---|---|\n"
    text += "".join(row(*case) for case in CASES)
    (HERE / "results.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
