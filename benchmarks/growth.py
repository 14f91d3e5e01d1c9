"""Measure how cost and memory grow, one thread: `make growth`.

One thing grows at a time; the others stay at 10 000 examples of 100 inputs, two hidden layers of
100 relu units, two classes and T = 20. A point is a process of its own. It trains one epoch (T = 2,
batches of 100) and issues a certificate of the same network, both with the native engine. Times are
CPU seconds, of a process that got at least 80 % of a core. Memory is the peak beyond that of
training, with the data; wide networks need more in training.

The second table is about whole commands, on a file of float32 numbers: the peak of a process beside
the features of all examples. Most of it is Python with PyTorch.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
STORE = HERE / "growth.jsonl"
BASE = {"examples": 10_000, "T": 20, "width": 100, "depth": 2, "classes": 2, "inputs": 100}
AXES = {
    "examples": (2_500, 10_000, 40_000, 160_000, 1_000_000),
    "T": (5, 20, 80, 320),
    "width": (25, 100, 400, 1_600),
    "depth": (1, 2, 4, 8),
    "classes": (2, 8, 32, 100),
    "inputs": (25, 100, 400, 1_600),
}
MEASURED = {
    "train": "an epoch, CPU seconds",
    "certify": "a certificate, CPU seconds",
    "memory": "a certificate's memory, MB",
}
ROWS, INPUTS = (10_000, 1_000_000), 784  # of the file that commands are given
COMMANDS = {
    "train": "--dataset x.npz --out run --prior-fraction 0 --widths 20 --epochs 1 --samples 1 -q",
    "certify": "run --samples 2",
    "verify": "run",
    "predict": "run x.npz --out labels.csv",
    "report": "run",
}


def measure_commands(rows: int) -> dict[str, float]:
    """Run the commands on so many rows; return each one's peak beside the features, in MB."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        rng, x = np.random.default_rng(0), np.empty((rows, INPUTS), np.float32)
        for block in np.split(x, rows // 10_000):
            pixels = np.frombuffer(rng.bytes(block.size), np.uint8).reshape(block.shape)
            np.divide(pixels, np.float32(255), out=block)
        y = (x[:, :10].sum(1) > 5).astype(np.int64)
        np.savez(Path(folder) / "x.npz", x=x, y=y)
        del x
        return {name: peak_of(name, folder) - rows * INPUTS / 2**18 for name in COMMANDS}


def peak_of(name: str, folder: str) -> float:
    """Return the peak memory of a command, in MB."""
    call = [sys.executable, "-m", "pacbayes", name, *COMMANDS[name].split()]
    child = subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"pacbayes {name} failed")
    return usage.ru_maxrss / 1024


def measure(point: dict[str, int]) -> dict[str, float]:
    """Train and certify at one point; return CPU seconds, the least share of a core, and memory."""
    import torch

    from pacbayes import Settings, Trainer, build_network, certify
    from pacbayes.bench.turns import timed

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    n, d, k = point["examples"], point["inputs"], point["classes"]
    x = torch.randn(n, d, generator=generator)
    y = torch.randint(k, (n,), generator=generator)
    y = 2.0 * y - 1 if k == 2 else y
    widths = (point["width"],) * point["depth"]
    given = {"epochs": 1, "samples": 2, "batch_size": 100, "evaluation_samples": 1}
    settings = Settings.of("fast", widths=widths, classes=k, **given)
    network = build_network(settings, d, k)
    trainer = Trainer(network, x, y, settings)
    trained = timed(lambda: [None for _ in trainer.steps()])
    certify(network, x[:200], y[:200], samples=2, repeats=True)  # loads what is loaded later
    before = peak()
    certified = timed(lambda: certify(network, x, y, samples=point["T"], repeats=True))
    return {
        "train": trained.cpu,
        "certify": certified.cpu,
        "memory": peak() - before,
        "share": min(trained.share(), certified.share()),
    }


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def points() -> dict[str, dict[str, int]]:
    every = [BASE | {axis: value} for axis, values in AXES.items() for value in values]
    every += [{"rows": rows} for rows in ROWS]
    return {json.dumps(point): point for point in every}


def made() -> dict[str, dict[str, float]]:
    lines = STORE.read_text().splitlines() if STORE.exists() else []
    return {json.dumps(r["point"]): r["found"] for r in map(json.loads, lines)}


def table(found: dict[str, dict[str, float]]) -> str:
    lines = ["# How cost grows\n", (__doc__ or "").strip() + "\n", "![growth](growth.svg)\n"]
    lines += [f"| grows | value | {' | '.join(MEASURED.values())} |", "|---|---:|---:|---:|---:|"]
    for axis, values in AXES.items():
        for value in values:
            r = found[json.dumps(BASE | {axis: value})]
            cells = (f"{r['train']:.2f}", f"{r['certify']:.2f}", f"{r['memory']:.0f}")
            lines.append(f"| {axis} | {value:,} | {' | '.join(cells)} |".replace(",", " "))
    lines.append("\nSlopes at the end, of log cost against log size (1 is proportional):\n")
    lines += ["| grows | an epoch | a certificate |", "|---|---:|---:|"]
    for axis, values in AXES.items():
        a, b = (found[json.dumps(BASE | {axis: value})] for value in values[-2:])
        ratio = math.log(values[-1] / values[-2])
        steep = (math.log(b[name] / a[name]) / ratio for name in ("train", "certify"))
        lines.append(f"| {axis} | {' | '.join(f'{slope:.2f}' for slope in steep)} |")
    lines += ["\nMemory of whole commands beside the features, MB:\n"]
    lines += [f"| rows × {INPUTS} | features | {' | '.join(COMMANDS)} |", "|---:" * 7 + "|"]
    for rows in ROWS:
        peaks = found[json.dumps({"rows": rows})]
        cells = (rows * INPUTS / 2**18, *(peaks[name] for name in COMMANDS))
        line = f"| {rows:,} | {' | '.join(f'{cell:,.0f}' for cell in cells)} |"
        lines.append(line.replace(",", " "))
    return "\n".join(lines) + "\n"


def draw(found: dict[str, dict[str, float]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "growth", "font.size": 8}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained")
    for place, (axis, values) in zip(axes.flat, AXES.items(), strict=True):
        for name, label in MEASURED.items():
            each = [max(found[json.dumps(BASE | {axis: v})][name], 0.01) for v in values]
            place.plot(values, each, marker="o", markersize=3, label=label)
        place.set(xscale="log", yscale="log", title=axis, ylim=(0.01, 1_000))
        place.set_xticks(values, [f"{v:,}".replace(",", " ") for v in values])
        place.minorticks_off()
        place.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=7)
    figure.savefig(HERE / "growth.svg", metadata={"Date": None})


def on_a_free_core(key: str) -> dict[str, float] | None:
    """Measure a point in a process of its own, up to three times; None if the machine was busy."""
    from pacbayes.bench.turns import ENOUGH

    for _ in range(3):
        call = [sys.executable, __file__, key]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        if found.pop("share", 1.0) >= ENOUGH:  # memory does not depend on it
            return found
    return None


def main() -> None:
    if len(sys.argv) > 1:
        point = json.loads(sys.argv[1])
        done = measure_commands(point["rows"]) if "rows" in point else measure(point)
        print(json.dumps(done))
        return
    for key, point in points().items():
        if key not in made() and (found := on_a_free_core(key)):
            with STORE.open("a") as file:
                file.write(json.dumps({"point": point, "found": found}) + "\n")
            print(key, found, flush=True)
    found = made()
    if missing := len(points().keys() - found.keys()):
        raise SystemExit(f"the machine was too busy for {missing} points; run this again")
    (HERE / "growth.md").write_text(table(found))
    draw(found)


if __name__ == "__main__":
    main()
