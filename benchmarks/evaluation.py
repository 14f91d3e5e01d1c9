"""Measure the CPU time of certificates and predictions, one thread.

    python benchmarks/evaluation.py                    # the package that is installed
    PYTHONPATH=other/src python benchmarks/evaluation.py   # another version, in turns with it

Each row is the least of several repeats on a part of the examples, in CPU seconds of the process,
scaled to 60 000 examples and 100 draws, or to a million rows of predictions. Fixed costs are scaled
too, so few examples look slower. Networks have three hidden layers of 100 units and learned scales,
at random weights near the prior; features are like those of MNIST: 784, a fifth of them not zero.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable

import torch

from pacbayes import Network, certify, dense_network
from pacbayes.choices import Predictor
from pacbayes.networks.predictors import decide

FULL, ROWS = 60_000, 1_000_000


def examples(n: int, d: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, d, generator=generator)
    x[torch.rand(n, d, generator=generator) < 0.8] = 0
    y = torch.randint(classes, (n,), generator=generator)
    return x, 2.0 * y - 1 if classes == 2 else y


def network(activation: str, classes: int, d: int = 784, *, learned: bool = True) -> Network:
    torch.manual_seed(0)
    made = dense_network(d, (100, 100, 100), activation, classes=classes, learned_scale=learned)
    with torch.no_grad():
        for p in made.parameters():
            p += 0.05 * torch.randn_like(p)
    return made


def seconds(work: Callable[[], object], repeats: int) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def certificate(activation: str, classes: int, n: int, repeats: int, **options: bool) -> float:
    made, (x, y) = network(activation, classes, **options), examples(n, 784, classes)
    return seconds(lambda: certify(made, x, y, samples=100), repeats) * FULL / n


def prediction(predictor: Predictor, n: int, repeats: int) -> float:
    made, (x, _) = network("relu", 2, 50).double(), examples(n, 50, 2)
    options = {}
    try:
        from pacbayes.engine.evaluation import sampler

        options = {"sampler": sampler(made)}
    except ImportError:  # an older version
        pass
    ask = {"seed": 0, "samples": 100, **options}
    return seconds(lambda: decide(made, predictor, x.double(), **ask), repeats) * ROWS / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual examples")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="the name of a row, or a part of names")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = {
        "certificate, relu": lambda n: certificate("relu", 2, n, args.repeats),
        "certificate, relu, unit scales": lambda n: certificate(
            "relu", 2, n, args.repeats, learned=False
        ),
        "certificate, sigmoid": lambda n: certificate("sigmoid", 2, n, args.repeats),
        "certificate, sign": lambda n: certificate("sign", 2, n, args.repeats),
        "certificate, relu, 10 classes": lambda n: certificate("relu", 10, n, args.repeats),
        "certificate, relu, 100 classes": lambda n: certificate("relu", 100, n // 4, args.repeats),
        "certificate, relu, 1000 classes": lambda n: certificate(
            "relu", 1000, n // 25, args.repeats
        ),
        "randomised predictions, a million rows": lambda n: prediction(
            Predictor.RANDOMISED, 2 * n, args.repeats
        ),
        "votes of 100, a million rows": lambda n: prediction(Predictor.VOTE, n // 4, args.repeats),
    }
    found = {}
    for name, measure in rows.items():
        if args.only == name or (args.only in name and args.only not in rows):
            found[name] = measure(int(2000 * args.scale))
            print(f"{name:45} {found[name]:9.1f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": found, "peak MB": round(peak)}))


if __name__ == "__main__":
    main()
