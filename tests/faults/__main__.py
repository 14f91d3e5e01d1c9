"""The fault campaign: `make faults`. It continues where it was stopped, and ends after its time.

Every case is drawn from its number, so that a failure can be repeated:

    python -m faults --only damaged --first 4711 --cases 1
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from faults import damaged, interrupted, scene, together
from faults.calls import in_a_child
from faults.scene import Outcome

Case = Callable[[int, Path, Path], tuple[str, str | None]]
Results = dict[tuple[str, int], tuple[str, str | None]]
KINDS: dict[str, tuple[Case, int, str]] = {  # with the number of cases that are wanted
    "killed": (partial(interrupted.case, kill=True), 300, "killed at an input or output call"),
    "failing": (partial(interrupted.case, kill=False), 500, "a failing call, or all from it on"),
    "together": (together.case, 200, "two processes on one folder"),
    "damaged": (damaged.case, 10_000, "a damaged file and a command that reads it"),
}
_WORDS = """
- **Killed, failing**: training (from nothing and resumed, with and without a learned prior),
  certifying, saving, and runs of a store; at opening, listing, linking, renaming and removing files
  and folders, at `fsync`, and halfway through a write. A call fails with no space, an error of the
  device, no permission or too many open files. What was certified before still verifies. The same
  command again ends with the files of an undisturbed run, byte for byte but for times.
- **Two processes**: both end well, or one says in a line who is writing. The folder is in the end
  that of one process. In a quarter of the pairs one process is killed.
- **Damaged**: bits, lengths, fields, tensors, headers and whole files of every kind of file, also
  exchanged, removed, or a folder or link in their place. All commands that read them work, say that
  a certificate does not hold, or end with one line and exit code 2. They leave no temporary file.
- **Not compared**: checkpoints, which hold times, and `models.skops`, whose members have random
  names, with the hashes of it. `verify` reads these in the end instead.
"""
BATCH = {"damaged": 50}  # cases of one process, which a crash would end


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    log, work = options.log.resolve(), options.work.resolve()
    log.parent.mkdir(parents=True, exist_ok=True)
    if not (work / "scene" / "data.csv").exists():
        scene.build(work / "scene")
    interrupted.warm(work / "scene", work / "warm")
    damaged.warm(work / "scene", work / "warm")
    results = _read(log)
    end = time.monotonic() + 60 * options.minutes
    for kind in [options.only] if options.only else KINDS:
        left = _numbers(kind, options, results)
        while left and time.monotonic() < end:
            size = BATCH.get(kind, 1)
            batch, left = left[:size], left[size:]
            for i, done, fault in _batch(kind, batch, work):
                results[kind, i] = (done, fault)
                _write(log, kind, i, done, fault, loud=bool(options.cases))
    table = _table(results)
    print(table)
    if options.summary:
        options.summary.write_text(table)
    return any(fault for _, fault in results.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--log", type=Path, default=Path("build/faults.jsonl"))
    parser.add_argument("--work", type=Path, default=Path("build/faults"))
    parser.add_argument("--summary", type=Path)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int)
    return parser.parse_args()


def _read(log: Path) -> Results:
    lines = log.read_text().splitlines() if log.exists() else []
    records = (json.loads(line) for line in lines if line.endswith("]"))
    return {(kind, i): (done, fault) for kind, i, done, fault in records}


def _numbers(kind: str, options: argparse.Namespace, results: Results) -> list[int]:
    """Return the cases that are left or failed; those asked for by number are made again."""
    first, cases = options.first, options.cases
    numbers = range(first, first + (cases or KINDS[kind][1]))
    return [i for i in numbers if cases or results.get((kind, i), ("", "left"))[1] is not None]


def _write(log: Path, kind: str, i: int, done: str, fault: str | None, *, loud: bool) -> None:
    with log.open("a") as file:
        file.write(json.dumps([kind, i, done, fault]) + "\n")
    if fault or loud:
        print(f"{kind} {i}: {done}: {fault}", flush=True)


def _done(results: Results, kind: str) -> int:
    return sum(kind == of for of, _ in results)


def _batch(kind: str, numbers: list[int], work: Path) -> list[tuple[int, str, str | None]]:
    """Run cases in a process of their own, so that a crash is a fault and not the end."""
    case, place = KINDS[kind][0], work / f"work-{os.getpid()}"
    if len(numbers) == 1 and kind != "damaged":
        return [(numbers[0], *case(numbers[0], work / "scene", place))]
    part = work / "part.jsonl"
    part.unlink(missing_ok=True)

    def run() -> Outcome:
        for i in numbers:
            found = (i, *case(i, work / "scene", place))
            with part.open("a") as file:
                file.write(json.dumps(found) + "\n")
        return Outcome(0, "", "")

    ended = in_a_child(run)
    lines = part.read_text().splitlines() if part.exists() else []
    found = [tuple(json.loads(line)) for line in lines]
    if ended is None:
        found.append((numbers[len(found)], "", "the process crashed"))
    return found


def _table(results: Results) -> str:
    lines = ["# Faults", "", "Made by `make faults`.", ""]
    lines += ["| fault | cases | wanted | failures |", "|---|---:|---:|---:|"]
    for kind, (_, wanted, words) in KINDS.items():
        bad = sum(of == kind and fault is not None for (of, _), (_, fault) in results.items())
        lines.append(f"| {words} | {_done(results, kind)} | {wanted} | {bad} |")
    return "\n".join(lines) + "\n" + _WORDS


if __name__ == "__main__":
    sys.exit(main())
