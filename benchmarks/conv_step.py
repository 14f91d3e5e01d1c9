"""Measure a training step of a convolutional network with local draws.

```
python benchmarks/conv_step.py
```

The network is that of `pacbayes train --network conv`, in batches of 256. A step draws
locally, as `stochastic` trains; or it draws the weights once for the batch, which is a plain torch
step beside four draws; or it is one of the module alone, with fixed weights. The three take turns.
Times are CPU time on one thread, medians over the turns, and the ratio is the median of the turns'
ratios. The target for the ratio is 2.4.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from pacbayes import stochastic
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.gaussian import gaussians
from pacbayes.training.objectives import backward_with_kl

HERE = Path(__file__).parent
BATCH = 256


class Shared(Evaluated):
    """The same body, with one draw of the weights for a batch in training too."""

    def _locally_drawn(self, x: Tensor) -> Tensor:
        return self.at(x, {name: g.sample() for name, g in gaussians(self.posterior).items()})


def small() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 5 * 5, 1),
    )


def stochastic_step(x: Tensor, y: Tensor, *, shared: bool) -> Callable[[], None]:
    network = stochastic(small(), seed=0)
    if shared:
        network.body.__class__ = Shared
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        backward_with_kl(network.loss(network(x, 1), y).mean(), network, 1 / 60_000)
        optimiser.step()

    return step


def plain_step(x: Tensor, y: Tensor) -> Callable[[], None]:
    module = small()
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        softplus(-y * module(x).squeeze(-1)).mean().backward()
        optimiser.step()

    return step


def cpu_seconds(step: Callable[[], None], times: int = 3) -> float:
    start = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=60)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.rand(BATCH, 784) * (torch.rand(BATCH, 784) < 0.2)  # as much ink as in MNIST
    y = torch.randint(2, (BATCH,)) * 2.0 - 1
    steps = {
        "local draws": stochastic_step(x, y, shared=False),
        "weights drawn once": stochastic_step(x, y, shared=True),
        "fixed weights": plain_step(x, y),
    }
    for step in steps.values():
        cpu_seconds(step)
    times = [{name: cpu_seconds(step) for name, step in steps.items()} for _ in range(turns)]
    rows = ["| step | CPU time | ratio to weights drawn once |", "|---|---|---|"]
    for name in steps:
        own = statistics.median(t[name] for t in times)
        ratio = statistics.median(t[name] / t["weights drawn once"] for t in times)
        rows.append(f"| {name} | {1e3 * own:.1f} ms | {ratio:.2f} |")
    text = ["# A convolutional training step\n", (__doc__ or "").strip() + "\n", *rows]
    (HERE / "conv_step.md").write_text("\n".join(text) + "\n")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
