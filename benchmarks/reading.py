"""Measure readers of CSV files: `make reading`, which writes reading.md.

Every reader runs in a process of its own, until three runs got at least 80 % of a core, and their
least CPU time (user and system) is shown; *busy* if none of six did. Memory is the peak of the
process, less what it had after reading a file of three rows, which loads the library. A result is
exact if it has every bit of the numbers that were written.
"""

from __future__ import annotations

import csv
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
COLUMNS = 50
RUNS = 3
Array = NDArray[np.float32]


def write(path: Path, rows: int) -> str:
    """Write random numbers and labels; return the hash of the numbers in float32."""
    rng, hasher = np.random.default_rng(0), hashlib.sha256()
    with path.open("w") as file:
        file.write(",".join([*(f"x{i}" for i in range(COLUMNS)), "y"]) + "\n")
        for start in range(0, rows, 10_000):
            x = rng.normal(size=(min(10_000, rows - start), COLUMNS)).astype(np.float32)
            hasher.update(x.tobytes())
            labels = rng.choice(["cat", "dog"], len(x))
            lines = zip(x.astype(float).tolist(), labels, strict=True)
            file.writelines(",".join(map(repr, row)) + f",{label}\n" for row, label in lines)
    return hasher.hexdigest()


def with_pacbayes(path: Path) -> Array:
    """Read with the library."""
    from pacbayes.data import read_frame

    numbers = read_frame(path).numbers
    assert numbers is not None
    return numbers


def with_csv(path: Path) -> Array:
    """Read with Python's csv module, as the library did before."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    x = np.empty((len(rows), COLUMNS), np.float32)
    for r, row in enumerate(rows):
        x[r] = [float(cell) for cell in row[:-1]]
    return x


def with_numpy(path: Path) -> Array:
    """Read with numpy."""
    columns = range(COLUMNS)
    return np.loadtxt(path, np.float32, delimiter=",", skiprows=1, usecols=columns, ndmin=2)


def with_pandas(path: Path) -> Array:
    """Read with pandas."""
    import pandas as pd

    return pd.read_csv(path).drop(columns="y").to_numpy(np.float32)


def with_polars(path: Path) -> Array:
    """Read with polars."""
    import polars as pl

    return pl.read_csv(path).drop("y").cast(pl.Float32).to_numpy()


def with_pyarrow(path: Path) -> Array:
    """Read with pyarrow, the whole file at once."""
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(path).drop_columns("y")
    return np.stack([column.to_numpy().astype(np.float32) for column in table.columns], axis=1)


READERS: dict[str, Callable[[Path], Array]] = {
    "pacbayes": with_pacbayes,
    "csv": with_csv,
    "numpy": with_numpy,
    "pandas": with_pandas,
    "polars": with_polars,
    "pyarrow": with_pyarrow,
}


def usage() -> tuple[float, float]:
    """CPU seconds and peak memory in MB of this process.

    The peak that getrusage reports would be the parent's, if that was larger.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return used.ru_utime + used.ru_stime, int(status["VmHWM"].split()[0]) * 1024 / 1e6


def measure(reader: str, path: Path, small: Path) -> None:
    """Print CPU time, share of a core, memory and hash as JSON."""
    READERS[reader](small)
    cpu, memory = usage()
    start = time.perf_counter()
    x = READERS[reader](path)
    wall, later = time.perf_counter() - start, usage()
    share = (later[0] - cpu) / wall
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
    used = {"cpu": later[0] - cpu, "share": share, "memory": later[1] - memory}
    print(json.dumps(used | {"sha256": digest}))


def best(reader: str, path: Path, small: Path, digest: str) -> str:
    """Return a row of the table."""
    from pacbayes.bench.turns import ENOUGH  # not in the readers' processes: it loads PyTorch

    command = [sys.executable, __file__, reader, str(path), str(small)]
    found, free = [], []
    while len(free) < RUNS and len(found) < 2 * RUNS:
        found.append(json.loads(subprocess.check_output(command)))
        free = [run for run in found if run["share"] >= ENOUGH]
    cpu = f"{min(run['cpu'] for run in free):.1f}" if free else "busy"
    memory = min(run["memory"] for run in found)
    exact = "yes" if {run["sha256"] for run in found} == {digest} else "no"
    release = "" if reader in ("pacbayes", "csv") else f" {version(reader)}"
    return f"| {reader}{release} | {cpu} | {memory:.0f} | {exact} |"


def main() -> None:
    if len(sys.argv) == 4:
        measure(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parts = [f"# Reading CSV files\n\n{(__doc__ or '').split(chr(10), 2)[2].strip()}\n"]
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder, "small.csv"), Path(folder, "large.csv")
        write(small, 3)
        for rows, left_out in ((250_000, ()), (1_000_000, ("csv", "numpy"))):
            digest = write(path, rows)
            parts.append(
                f"\n{rows:,} rows of {COLUMNS} numbers: a file of {path.stat().st_size / 1e6:.0f} "
                f"MB, an array of {rows * COLUMNS * 4 / 1e6:.0f} MB.\n\n"
                "| reader | CPU time (s) | memory (MB) | exact |\n|---|---|---|---|\n"
            )
            readers = [reader for reader in READERS if reader not in left_out]
            parts += [best(reader, path, small, digest) + "\n" for reader in readers]
    (HERE / "reading.md").write_text("".join(parts))


if __name__ == "__main__":
    main()
