"""Certify kernel networks with their defaults: bounds, test errors and CPU time.

    python benchmarks/kernel.py [DATASET …] [--seed 0]

One run after the other on one thread. Appends to benchmarks/kernel.jsonl and writes
benchmarks/kernel.md, which has the latest run of every data set and seed.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import torch

from pacbayes.bounds import percent_up
from pacbayes.data import DataSource
from pacbayes.folders.kernels import (
    certify_kernel_run,
    create_kernel,
    kernel_test_errors,
    train_kernel_run,
)
from pacbayes.networks.kernel import KernelPrior
from pacbayes.training.kernel import KernelSettings
from pacbayes.verify import verify

HERE = Path(__file__).parent
SETS = ("binary-mnist", "mnist", "binary-fashion-mnist", "fashion-mnist", "cifar-10")
HEADINGS = (
    "data",
    "seed",
    "features, kernel",
    "priors paid",
    "certificate %",
    "risk %",
    "KL",
    "test, randomised %",
    "test, vote %",
    "CPU-s: train, certify, verify --full",
    "memory GB",
)


def measured(name: str, seed: int) -> dict[str, object]:
    """Train, certify and verify a data set's usual kernel network in a folder of its own."""
    source = DataSource(name)
    data = source.load()
    prior = KernelPrior.usual(name, data.shape or ())
    with tempfile.TemporaryDirectory() as folder:
        clock = [time.process_time()]
        run = create_kernel(Path(folder) / name, prior, source, data, KernelSettings(seed=seed))
        network = train_kernel_run(run, data)
        clock.append(time.process_time())
        c = certify_kernel_run(run, data)
        clock.append(time.process_time())
        findings = list(verify(run.folder, full=True))
        clock.append(time.process_time())
        errors = kernel_test_errors(run, network, data)
        assert errors is not None
    if broken := [f"{f.name}: {f.detail}" for f in findings if not f.holds]:
        raise RuntimeError(f"{name} does not verify: {'; '.join(broken)}")
    seconds = [round(b - a, 1) for a, b in pairwise(clock)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tried = sum(k.startswith("other prior") for k in c.ledger)
    found = {"data": name, "seed": seed, "bound": c.bound, "risk": c.risk, "kl": c.kl, "n": c.n}
    given = {"features": prior.features, "kernel": prior.kernel, "priors": tried + 1}
    return found | given | {"test": asdict(errors), "seconds": seconds, "peak": round(peak, 2)}


def table(rows: list[dict[str, object]]) -> str:
    """Return the latest run of each data set and seed as a table."""
    latest = {(row["data"], row["seed"]): row for row in rows}
    order = sorted(latest.values(), key=lambda row: (SETS.index(str(row["data"])), row["seed"]))
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for row in order:
        test, seconds = row["test"], row["seconds"]
        assert isinstance(test, dict)
        assert isinstance(seconds, list)
        cells = [row["data"], row["seed"], f"{row['features']}, {row['kernel']}", row["priors"]]
        cells += [percent_up(float(str(row["bound"]))), f"{100 * float(str(row['risk'])):.2f}"]
        cells += [f"{float(str(row['kl'])):.0f}"]
        cells += [f"{100 * test[name]:.2f}" for name in ("randomised", "vote")]
        cells += [", ".join(f"{s:.0f}" for s in seconds), row["peak"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = HERE / "kernel.jsonl"
    for name in arguments.sets:
        with log.open("a") as file:
            file.write(json.dumps(measured(name, arguments.seed)) + "\n")
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        (HERE / "kernel.md").write_text(
            "# Kernel networks\n\nMade by `python benchmarks/kernel.py` with the library's "
            "defaults, δ = 0.05 and a data-free prior.\n\n" + table(rows) + "\n"
        )


if __name__ == "__main__":
    main()
