"""Compare what a user waits for in two versions: `python benchmarks/waiting.py --before OTHER/src`.

Processes of both versions take turns on one thread. A number is CPU time: of a whole process where
a row names a command, and else of the named work alone, without imports and data. A turn counts if
the process got at least 80 % of a core, and a row with fewer than three such turns says *busy*.
Where the earlier version is too slow it has fewer examples, and its time is scaled to the number
that is named. *After ÷ before* is the median over the turns, with quartiles; *goal* is the ratio
that was asked for when the earlier version was measured, for the CSV and the report on files where
it took 19 and 72 s. Both versions need an engine that is built.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.bench.contests import machine
from pacbayes.bench.turns import ENOUGH, Timing

LEAST, TURNS, PATIENCE = 3, 5, 40.0  # turns, turns, seconds

_TIMER = """
import json, time
def measure(work):
    start = time.process_time(), time.perf_counter()
    work()
    print(json.dumps([time.process_time() - start[0], time.perf_counter() - start[1]]))
"""
_IMAGES = """
import torch
generator = torch.Generator().manual_seed(0)
x = torch.rand(N, 784, generator=generator) * (torch.rand(N, 784, generator=generator) < 0.2)
y = torch.randint(K, (N,), generator=generator)
y = 2.0 * y - 1 if K == 2 else y
"""
_CERTIFY = f"""{_TIMER}{_IMAGES}
from pacbayes import certify, dense_network
network = dense_network(784, (100,) * 3, "UNIT", classes=K, learned_scale=True)
measure(lambda: certify(network, x, y, samples=100))
"""
_STEPS = f"""{_TIMER}{_IMAGES.replace("N", "256")}
from pacbayes import Settings, Trainer, build_network
given = dict(widths=(100,) * 3, learned_scale=True, samples=4, engine="ENGINE")
given |= dict(classes=K) if "classes" in Settings.model_fields else {{}}
settings = Settings.of("fast", "relu", **given)
trainer = Trainer(build_network(settings, 784, K), x, y, settings)
trainer.weight_step(torch.arange(256), 0, 1e-3, 1.0)
measure(lambda: [trainer.weight_step(torch.arange(256), i, 1e-3, 1.0) for i in range(N)])
"""
_FIRST = f"""{_TIMER}
import torch
from pacbayes import Settings, Trainer, build_network
x, y = torch.rand(N, 784), torch.ones(N)
settings = Settings.of("fast", "relu", engine="native")
network = build_network(settings, 784)
measure(lambda: Trainer(network, x, y, settings).weight_step(torch.arange(N), 0, 1e-3, 1.0))
"""
_FIT = f"""{_TIMER}
from sklearn.datasets import make_classification
from pacbayes import PACBayesClassifier
x, y = make_classification(N, 10, random_state=0)
measure(lambda: PACBayesClassifier(random_state=0).fit(x, y))
"""
_READ = f"""{_TIMER}
from pacbayes.data import load
measure(lambda: load("FOLDER/tableN.csv"))
"""
_TABLES = """
import numpy as np
rng = np.random.default_rng(0)
for n in (25_000, 60_000, 100_000, 250_000, 1_000_000):
    x = rng.normal(size=(n, 50)).astype("float32")
    y = (x @ rng.normal(size=50) + rng.normal(size=n) > 0).astype(int)
    np.savez(f"FOLDER/table{n}.npz", x=x, y=y)
    np.savez(f"FOLDER/new{n}.npz", x=x)
    if n in (100_000, 250_000):
        names = ",".join(f"x{i}" for i in range(50)) + ",label"
        np.savetxt(f"FOLDER/table{n}.csv", np.c_[x, y], "%.6g", ",", header=names, comments="")
"""


@dataclass(frozen=True)
class Work:
    """A row.

    Attributes:
        arguments: of python, with names in the place of values.
        n: examples, rows or steps, by which time is scaled.
        before: the same number for the earlier version, if it has fewer.
        goal: the ratio that was asked for.
    """

    name: str
    arguments: tuple[str, ...]
    n: int = 1
    before: int | None = None
    goal: float | None = None

    def given(self, **values: object) -> Work:
        """Put values in the place of names."""
        arguments = list(self.arguments)
        for name, value in values.items():
            arguments = [a.replace(name, str(value)) for a in arguments]
        return replace(self, arguments=tuple(arguments))

    def command(self, version: str) -> tuple[list[str], float]:
        """Return arguments of python for a version, and what its time is multiplied by."""
        n = self.before if version == "before" and self.before else self.n
        values = {"VERSION": version, "N": str(n)}
        arguments = list(self.arguments)
        for name, value in values.items():
            arguments = [a.replace(name, value) for a in arguments]
        return arguments, self.n / n


def works(folder: Path) -> list[Work]:
    """Return every row."""
    module = "-m", "pacbayes"
    bound = *module, "bound", "catoni", "--risk", "0.0635", "--kl", "2363", "--n", "60000"
    report = *module, "report", f"{folder}/VERSION", "--out", f"{folder}/report.html"
    predict = (
        *module,
        "predict",
        f"{folder}/VERSION",
        f"{folder}/newN.npz",
        "--method",
        "randomised",
    )
    predict = *predict, "--method", "randomised", "--out", f"{folder}/labels.csv"
    steps = Work("", ("-c", _STEPS))

    def certificate(unit: str, k: int, n: int, before: int, goal: float) -> Work:
        name = f"certificate, {unit}, {k} classes, {n:_} × 100 draws".replace("_", " ")
        return Work(name, ("-c", _CERTIFY), n, before, goal).given(UNIT=unit, K=k)

    return [
        certificate("relu", 2, 20_000, 1000, 12 / 69),
        certificate("sign", 2, 20_000, 1000, 5 / 81),
        certificate("relu", 10, 20_000, 400, 20 / 155),
        certificate("relu", 100, 6000, 30, 40 / 2906),
        certificate("relu", 1000, 500, 8, 200 / 54_000),
        replace(steps, name="step, 100 classes, native", n=100).given(K=100, ENGINE="native"),
        replace(steps, name="step, 100 classes, PyTorch", n=20, before=2, goal=5 / 150).given(
            K=100, ENGINE="torch"
        ),
        Work("first step in a process, native", ("-c", _FIRST), 256, goal=0.1),
        Work("`PACBayesClassifier().fit`, 20 000 × 10", ("-c", _FIT), 20_000, goal=0.5),
        Work("read a CSV of 250 000 × 50", ("-c", _READ), 250_000, 100_000, 1.5 / 19).given(
            FOLDER=folder
        ),
        Work("`pacbayes bound catoni`", bound, goal=0.25 / 0.65),
        Work(
            "`pacbayes predict`, randomised, 1 000 000 × 50", predict, 1_000_000, 25_000, 10 / 739
        ),
        Work("`pacbayes report`, 60 000 × 50", report, goal=8 / 72),
    ]


def run(source: Path, arguments: list[str]) -> Timing:
    """Run a process of a version and return its time."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )
    out = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{source}: {' '.join(arguments)[:200]} ended with {process.returncode}")
    whole = Timing(used.ru_utime + used.ru_stime, time.perf_counter() - start)
    return Timing(*json.loads(out)) if arguments[0] == "-c" and out else whole


def row(work: Work, sources: dict[str, Path]) -> str:
    """Measure a row in turns."""
    counted: list[dict[str, float]] = []
    start = time.perf_counter()
    for turn in range(2 * TURNS):
        times = {}
        for version, source in sources.items():
            arguments, scale = work.command(version)
            timing = run(source, arguments)
            if timing.share() >= ENOUGH:
                times[version] = timing.cpu * scale
        if len(times) == len(sources):
            counted.append(times)
        late = time.perf_counter() - start > PATIENCE
        if len(counted) >= TURNS or (late and (len(counted) >= LEAST or turn >= 2 * LEAST)):
            break
    return _line(work, counted)


def _line(work: Work, counted: list[dict[str, float]]) -> str:
    goal = "–" if work.goal is None else _short(work.goal)
    if len(counted) < LEAST:
        return f"| {work.name} | busy | | | {goal} |"
    low, middle, high = statistics.quantiles(
        [t["after"] / t["before"] for t in counted], n=4, method="inclusive"
    )
    seconds = [_short(statistics.median(t[v] for t in counted)) for v in ("before", "after")]
    ratio = f"{_short(middle)} ({_short(low)} – {_short(high)})"
    return f"| {work.name} | {' | '.join(seconds)} | {ratio} | {goal} |"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def commit(source: Path) -> str:
    """Return the commit of a version."""
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def prepare(folder: Path, sources: dict[str, Path]) -> None:
    """Write the tables, and train a run with each version."""
    run(sources["before"], ["-c", _TABLES.replace("FOLDER", str(folder))])
    data = ["--dataset", str(folder / "table60000.npz"), "--epochs", "1", "--quiet"]
    data += ["--widths", "100,100,100"]
    for version, source in sources.items():
        run(source, ["-m", "pacbayes", "train", *data, "--out", str(folder / version)])
        run(source, ["-m", "pacbayes", "certify", str(folder / version)])


def main() -> None:
    """Measure, print and perhaps write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="src of the other version")
    parser.add_argument("--only", default="", help="a pattern that names of rows have")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sources = {"before": args.before.resolve(), "after": Path(__file__).parents[1] / "src"}
    commits = ", ".join(f"{version}: {commit(source)}" for version, source in sources.items())
    head = "| | before, s | after, s | after ÷ before | goal |\n|---|---:|---:|---:|---:|"
    lines = [(__doc__ or "").strip(), "", f"{machine()}; {commits}", "", head]
    with tempfile.TemporaryDirectory() as folder:
        asked = [work for work in works(Path(folder)) if re.search(args.only, work.name)]
        if any(folder in argument for work in asked for argument in work.arguments):
            prepare(Path(folder), sources)
        for work in asked:
            lines.append(row(work, sources))
            print(lines[-1], flush=True)
    if args.out:
        args.out.write_text(
            "# What a user waits for, in two versions\n\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
