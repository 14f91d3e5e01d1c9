"""Compare the time of one Clopper–Pearson bound in two versions.

`python benchmarks/tails.py --before OTHER/src > benchmarks/tails.md` lets processes of both
versions take turns. A number is the least CPU time of a call in microseconds, over all turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
N, TURNS = 10**6, 5
ERRORS = (0, 1, 30, 1000, 50_000, 300_000, 500_000, 900_000, 999_990)
DELTAS = (1e-9, 0.05, 0.1, 0.2, 0.5, 0.8, 0.99)
_TIMES = """
import json, time
from pacbayes.bounds import clopper_pearson
def least(k, delta):
    found = []
    for _ in range(4):
        start = time.process_time()
        for _ in range(150):
            clopper_pearson(k / N, N, delta)
        found.append((time.process_time() - start) / 150 * 1e6)
    return min(found)
clopper_pearson(0.1, N, 0.1)
print(json.dumps([[least(k, delta) for k in ERRORS] for delta in DELTAS]))
"""


def times(source: Path) -> list[list[float]]:
    """Return the microseconds of a version, for each δ and number of errors."""
    values = {"N": N, "ERRORS": ERRORS, "DELTAS": DELTAS}
    given = "".join(f"{name} = {value}\n" for name, value in values.items())
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", given + _TIMES]
    found: list[list[float]] = json.loads(subprocess.check_output(command, env=environment))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="src of the other version")
    sources = parser.parse_args().before, SOURCE
    turns = [[times(source) for source in sources] for _ in range(TURNS)]
    cells = [
        [[min(turn[v][i][j] for turn in turns) for v in (0, 1)] for j in range(len(ERRORS))]
        for i in range(len(DELTAS))
    ]
    print("# Clopper–Pearson bounds\n\nMade by `python benchmarks/tails.py --before OTHER/src`.\n")
    print(f"CPU time of one call at n = {N:,} in µs, before → after, and the ratio. *Before* is")
    print("the version whose tails were not shown to be at most δ at the number returned.\n")
    print("| δ | " + " | ".join(f"{k:,} errors" for k in ERRORS) + " |")
    print("|---|" + "---:|" * len(ERRORS))
    for delta, row in zip(DELTAS, cells, strict=True):
        words = [f"{a:.1f} → {b:.1f}, {b / a:.2f}" for a, b in row]
        print(f"| {delta:g} | " + " | ".join(words) + " |")
    most = max(b / a for row in cells for a, b in row)
    print(f"\nThe largest ratio is {most:.2f}.")


if __name__ == "__main__":
    main()
