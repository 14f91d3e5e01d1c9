"""Compare two versions of the package: `python benchmarks/waiting.py --before OTHER/src`.

Whole processes of both versions take turns on one thread, by the rules of `pacbayes bench`: CPU
times, and no number where a process got less than 80 % of a core. Each row is the time of this
version divided by that of the other, then its own time and the peak memory of both. Imports are
part of a process. Both versions need an engine that is built.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pacbayes.bench.contests import Measurements
from pacbayes.bench.tables import machine, table
from pacbayes.bench.turns import Contest, Entrant, Plan, Row, compare

_EXAMPLES = """
import torch
generator = torch.Generator().manual_seed(0)
x = torch.rand(N, 784, generator=generator) * (torch.rand(N, 784, generator=generator) < 0.2)
y = torch.randint(K, (N,), generator=generator)
y = 2.0 * y - 1 if K == 2 else y
"""
_CERTIFY = f"""{_EXAMPLES}
from pacbayes import certify, dense_network
network = dense_network(784, (100,) * 3, "UNIT", classes=K, learned_scale=True)
certify(network, x, y, samples=100)
"""
_STEPS = f"""{_EXAMPLES}
from pacbayes import Settings, Trainer, build_network
given = dict(widths=(100,), classes=K, learned_scale=True, samples=4, engine="ENGINE")
settings = Settings.of("fast", "relu", **given)
trainer = Trainer(build_network(settings, 784, K), x, y, settings)
for i in range(STEPS):
    trainer.weight_step(torch.arange(256), i, 1e-3, 1.0)
"""
_FIT = """
from sklearn.datasets import make_classification
from pacbayes.sklearn import PACBayesClassifier
PACBayesClassifier(random_state=0).fit(*make_classification(20_000, 10, random_state=0))
"""
_TABLE = """
import sys
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(60_000, 50)).astype("float32")
y = (x @ rng.normal(size=50) + rng.normal(size=60_000) > 0).astype(int)
np.savez(sys.argv[1], x=x, y=y)
"""


def code(text: str, **given: object) -> list[str]:
    """Return arguments of python for a piece of code, with values in the place of names."""
    for name, value in given.items():
        text = text.replace(name, str(value))
    return ["-c", text]


def rows(folder: Path) -> dict[str, list[str]]:
    """Return arguments of python for every row."""
    command = ["-m", "pacbayes"]
    bound = ["bound", "catoni", "--risk", "0.0635", "--kl", "2363", "--n", "60000"]
    report = ["report", str(folder / "run"), "--out", str(folder / "report.html")]
    return {
        "certificate, relu": code(_CERTIFY, UNIT="relu", K=2, N=8000),
        "certificate, sign": code(_CERTIFY, UNIT="sign", K=2, N=8000),
        "certificate, relu, 10 classes": code(_CERTIFY, UNIT="relu", K=10, N=8000),
        "certificate, relu, 100 classes": code(_CERTIFY, UNIT="relu", K=100, N=2000),
        "first step, native": code(_STEPS, ENGINE="native", STEPS=1, K=2, N=256),
        "first step, PyTorch": code(_STEPS, ENGINE="torch", STEPS=1, K=2, N=256),
        "300 steps with 100 classes, native": code(
            _STEPS, ENGINE="native", STEPS=300, K=100, N=256
        ),
        "30 steps with 100 classes, PyTorch": code(_STEPS, ENGINE="torch", STEPS=30, K=100, N=256),
        "`PACBayesClassifier().fit`, 20 000 × 10": ["-c", _FIT],
        "`pacbayes bound catoni`": [*command, *bound],
        "`pacbayes report` of 60 000 × 50": [*command, *report],
    }


def run(source: Path, arguments: list[str]) -> float:
    """Run a process of a version and return its peak memory in megabytes."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{source}: {' '.join(arguments)[:200]} ended with {process.returncode}")
    return used.ru_maxrss / 1024


def contest(name: str, arguments: list[str], sources: dict[str, Path]) -> tuple[Row, str]:
    """Return the row of two versions, and a line about their memory."""
    peaks: dict[str, float] = {}

    def entrant(version: str) -> Entrant:
        def once(i: int) -> None:
            peaks[version] = run(sources[version], arguments)

        return Entrant(once)

    entrants = {version: entrant(version) for version in sources}
    (row,) = compare(Contest(name, lambda: entrants), Plan(turns=7, patience=20.0))
    return row, f"- {name}: {peaks['after']:.0f} MB, before {peaks['before']:.0f} MB"


def main() -> None:
    """Measure, print and perhaps write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="src of the other version")
    parser.add_argument("--only", default="", help="a part of the names of rows")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sources = {"after": Path(__file__).parents[1] / "src", "before": args.before.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        asked = {n: a for n, a in rows(Path(folder)).items() if args.only in n}
        if any("report" in arguments for arguments in asked.values()):
            prepare(Path(folder), sources["before"])
        found = [contest(name, arguments, sources) for name, arguments in asked.items()]
    commits = ", ".join(f"{version}: {commit(source)}" for version, source in sources.items())
    ratios, memory = [row for row, _ in found], [line for _, line in found]
    text = [(__doc__ or "").strip(), f"{machine()}; {commits}", table(ratios), "\n".join(memory)]
    if warning := Measurements(ratios, []).warning:
        text.append(f"Warning: {warning}.")
    page = "\n\n".join(text) + "\n"
    print(page)
    if args.out:
        args.out.write_text("# Two versions\n\n" + page)


def commit(source: Path) -> str:
    """Return the commit of a version."""
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def prepare(folder: Path, source: Path) -> None:
    """Train the run that is reported on."""
    data, made = str(folder / "table.npz"), str(folder / "run")
    run(source, ["-c", _TABLE, data])
    train = ["train", "--dataset", data, "--epochs", "1", "--quiet", "--out", made]
    run(source, ["-m", "pacbayes", *train])


if __name__ == "__main__":
    main()
