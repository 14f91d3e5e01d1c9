"""The campaign against the inverses: `make inverses`. It continues where it was stopped.

Every case is drawn from its number, so that a fault can be repeated:

    python -m inverses --only catoni_fixed --first 4711 --cases 1
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import defaultdict
from pathlib import Path

import flint
import numpy
import scipy

import pacbayes
from inverses.cases import CLOSE, KINDS, SEED, Found, run

WANTED = 200_000


def main() -> int:
    options = _options()
    options.log.parent.mkdir(parents=True, exist_ok=True)
    results = _read(options.log)
    numbers = range(options.first, options.first + options.cases)
    with options.log.open("a", buffering=1) as file:
        file.write("\n")  # ends a line that was cut off
        for i in numbers:
            if i in results and not options.only:
                continue
            found = run(i, options.only)
            if not options.only:
                results[i] = found
                file.write(json.dumps([i, found.name, found.fault, found.over]) + "\n")
            if found.fault or options.only:
                print(f"{i} {found.name}: {found.fault}", flush=True)
    if options.only:
        return 0
    table = _table(results)
    print(table)
    if options.summary:
        options.summary.write_text(table)
    return any(found.fault for found in results.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, default=Path("build/inverses.jsonl"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=WANTED)
    return parser.parse_args()


def _read(log: Path) -> dict[int, Found]:
    """Return the cases of earlier runs; those with a fault are run again."""
    lines = log.read_text().splitlines() if log.exists() else []
    records = (json.loads(line) for line in lines if line.endswith("]"))
    return {i: Found(name, fault, over) for i, name, fault, over in records if fault is None}


def _table(results: dict[int, Found]) -> str:
    kinds = defaultdict(list)
    for found in results.values():
        kinds[found.name].append(found)
    lines = ["# Inverses", "", "Made by `make inverses`.", ""]
    lines += ["| function | cases | faults | beyond the exact value |", "|---|---:|---:|---:|"]
    for name in KINDS:
        of = kinds[name]
        faults, most = sum(f.fault is not None for f in of), max((f.over for f in of), default=0.0)
        lines.append(f"| {name} | {len(of)} | {faults} | {f'{most:.1e}' if most else ''} |")
    lines += [f"| all | {len(results)} | {sum(f.fault is not None for f in results.values())} | |"]
    versions = {
        "pacbayes": pacbayes.__version__,
        "Python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python-flint": flint.__version__,
    }
    words = ", ".join(f"{name} {version}" for name, version in versions.items())
    return "\n".join(lines) + _WORDS.format(seed=SEED, close=CLOSE, versions=words)


_WORDS = """

Seed {seed}; {versions}.

- **Domain**: n from 1 to 10¹², risks 0, 1, near them and between, δ from 10⁻³⁰⁰ to 1 − 2⁻⁵³, KL
  from 0 to 10⁸, and the free parameters of each theorem. Means are those of up to 10¹⁵ draws.
- **A fault** is a bound that Arb proves too small or cannot prove large enough, or one that is
  higher than the exact one by more than {close:g} of its excess over the risk and 2⁻⁴⁵ of itself.
- **Beyond the exact value**: the largest distance, as a part of the excess, without these 2⁻⁴⁵.
- **Plan**: the quantile, the bounds expected, and the bound wanted at the returned n.
- **verify**: the verifier's own theorem accepts the bound and needs no smaller one.
"""


if __name__ == "__main__":
    sys.exit(main())
