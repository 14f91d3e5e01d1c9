"""Measure what a user waits for beside certificates: two versions of the package in turns.

    python benchmarks/waiting.py --before OTHER/src --out benchmarks/waiting.md

Each measurement is a process of its own, on one thread, and counts its CPU seconds. A number is the
least of several repeats in which the process got at least 80 % of a core; where none did, the
machine was too busy and there is no number. Both versions need a native engine that is built.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pacbayes.bench.tables import machine

ENOUGH = 0.8  # of a core
_TIMED = """
import json, resource, time
def timed(work, repeats=1):
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": cpu, "share": cpu / wall, "peak": peak}))
"""
_WHOLE = """
import json, resource, subprocess, sys, time
wall = time.perf_counter()
command = [sys.executable, "-m", "pacbayes", *sys.argv[1:]]
subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
wall, used = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print(json.dumps({"seconds": cpu, "share": cpu / wall, "peak": peak}))
"""
_FIT = f"""{_TIMED}
from sklearn.datasets import make_classification
from pacbayes.sklearn import PACBayesClassifier
x, y = make_classification(20_000, 10, random_state=0)
PACBayesClassifier(random_state=0, epochs=1, prior_epochs=1).fit(x[:500], y[:500])  # imports
timed(lambda: PACBayesClassifier(random_state=0).fit(x, y), 3)
"""
_FIRST = f"""{_TIMED}
import torch
from pacbayes import Settings, build_network, train
x = torch.randn(300, 4)
y = torch.where(x[:, 0] > 0, 1.0, -1.0)
settings = Settings.of("fast", "relu", widths=(6,), epochs=1, engine="ENGINE")
network = build_network(settings, 4)
timed(lambda: train(network, x, y, settings))
"""
_STEP = f"""{_TIMED}
import torch
from pacbayes import Settings, Trainer, build_network
x, y = torch.rand(256, 50), torch.arange(256) % 100
settings = Settings.of("fast", "relu", widths=(100,), classes=100, engine="ENGINE", samples=4)
trainer = Trainer(build_network(settings, 50, 100), x, y, settings)
index = torch.arange(256)
trainer.weight_step(index, 0, 1e-3, 1.0)
timed(lambda: [trainer.weight_step(index, i, 1e-3, 1.0) for i in range(COUNT)], 5)
"""
_TABLE = """
import sys
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(60_000, 50)).astype("float32")
y = (x @ rng.normal(size=50) + rng.normal(size=60_000) > 0).astype(int)
np.savez(sys.argv[1], x=x, y=y)
"""


def rows(folder: Path) -> dict[str, tuple[str, list[str], float]]:
    """Return code, arguments and number of steps for each name."""
    bound = ["bound", "catoni", "--risk", "0.0635", "--kl", "2363", "--n", "60000"]
    report = ["report", str(folder / "run"), "--out", str(folder / "report.html")]
    native, torch = ("native", "20"), ("torch", "1")

    def step(engine: str, count: str) -> str:
        return _STEP.replace("ENGINE", engine).replace("COUNT", count)

    return {
        "`report` of 60 000 × 50 without a test set": (_WHOLE, report, 1),
        "`PACBayesClassifier().fit`, 20 000 × 10": (_FIT, [], 1),
        "first run in a process, native": (_FIRST.replace("ENGINE", "native"), [], 1),
        "first run in a process, PyTorch": (_FIRST.replace("ENGINE", "torch"), [], 1),
        "step with 100 classes, native": (step(*native), [], 20),
        "step with 100 classes, PyTorch": (step(*torch), [], 1),
        "`pacbayes bound catoni`": (_WHOLE, bound, 1),
    }


def run(source: Path, code: str, arguments: list[str]) -> list[dict[str, float]]:
    """Return the repeats of one process."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"sec')]


def measure(
    sources: dict[str, Path], code: str, arguments: list[str], repeats: int, attempts: int
) -> dict[str, dict[str, float] | None]:
    """Run the versions in turns, until each has enough repeats on a core that was nearly free."""
    good: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
    for _ in range(attempts):
        for name, source in sources.items():
            found = run(source, code, arguments)
            good[name] += [one for one in found if one["share"] >= ENOUGH]
        if all(len(found) >= repeats for found in good.values()):
            break
    return {
        name: min(found, key=lambda one: one["seconds"], default=None)
        for name, found in good.items()
    }


def shown(one: dict[str, float] | None, steps: float) -> str:
    if one is None:
        return "busy"
    seconds = one["seconds"] / steps
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="src of the other version")
    parser.add_argument("--only", default="", help="a part of the names of rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--attempts", type=int, default=6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sources = {"before": args.before.resolve(), "after": Path(__file__).parents[1] / "src"}
    commits = {name: _commit(source) for name, source in sources.items()}
    lines = [
        "# Waiting",
        "",
        "CPU seconds of one thread, and the peak memory of the process: the least of several",
        f"repeats with at least {100 * ENOUGH:.0f} % of a core, in turns on one machine. A row",
        "that says *busy* found no such moment. A first run does not count the import of PyTorch.",
        "",
        f"{machine()}; before: {commits['before']}, after: {commits['after']}",
        "",
        "| | before | after | memory before | memory after |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, (code, arguments, steps) in rows(Path(folder)).items():
            if args.only not in name:
                continue
            if arguments[:1] == ["report"]:
                _prepare(Path(folder), sources["before"])
            found = measure(sources, code, arguments, args.repeats, args.attempts)
            times = [shown(found[which], steps) for which in sources]
            peaks = ["–" if one is None else f"{one['peak']:.0f} MB" for one in found.values()]
            lines.append(f"| {' | '.join([name, *times, *peaks])} |")
            print(lines[-1], flush=True)
    command = "python benchmarks/waiting.py --before BEFORE/src --out benchmarks/waiting.md"
    lines += ["", "```", command, "```", ""]
    if args.out:
        args.out.write_text("\n".join(lines))


def _commit(source: Path) -> str:
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _prepare(folder: Path, source: Path) -> None:
    """Train the run that is reported on."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    table, run = str(folder / "table.npz"), str(folder / "run")
    train = ["-m", "pacbayes", "train", "--dataset", table, "--epochs", "1", "--out", run]
    for arguments in (["-c", _TABLE, table], train):
        command = [sys.executable, *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)


if __name__ == "__main__":
    main()
