"""Simulate workers on the real store of runs: `make scaling`, about ten minutes.

Files are real and time is simulated (`tests/simulation`). A run takes 600 s in the mean. Workers
start within a minute, and each call of the file system takes 2 ms in the mean. A worker is killed
every two hours in the mean, before a call or at work, and another one starts half a minute later.
It stalls as often, for a minute in the mean. There are three runs for two workers. A killed run
begins again from nothing, where a real one resumes from its checkpoint.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from simulation import Conditions, Outcome, simulate

HERE = Path(__file__).parent
WORKERS = (10, 100, 1_000)


def rows(o: Outcome) -> Iterator[tuple[str, str]]:
    c, every = o.conditions, [a for each in o.attempts.values() for a in each]
    twice = sum(sum(a.made is not None for a in each) > 1 for each in o.attempts.values())
    taken_over = sorted(takeovers(o))
    search, (held, looked) = sorted(searches(o)), o.calls
    yield "workers", f"{c.workers}"
    yield "runs", f"{c.runs}"
    yield "workers killed", f"{o.killed}"
    yield "stalls", f"{o.stalled}"
    yield "**runs lost, or taken within a minute of a sign of life**", f"**{len(o.faults)}**"
    yield "attempts", f"{len(every)}"
    yield "runs made twice, after a stall of more than a minute", f"{twice}"
    yield "leases and temporary files left in the end", f"{len(o.left)}"
    yield "seconds from a last sign of life to the next attempt, median", median(taken_over)
    yield "seconds from one run to the next, median", median(search)
    yield "seconds from one run to the next, 95 %", high(search)
    yield "calls of the file system for a run, by the worker that has it", f"{held / c.runs:.0f}"
    yield "calls for a run, by workers that look for one", f"{looked / c.runs:.0f}"
    yield "calls in a second, mean", f"{(held + looked) / o.seconds:.0f}"
    yield "calls in a second, most", f"{o.busiest}"
    yield "hours until every worker has ended", f"{o.seconds / 3600:.2f}"


def takeovers(o: Outcome) -> Iterator[float]:
    for each in o.attempts.values():
        for earlier, later in pairwise(each):
            yield later.stamps[0] - max(t for t in earlier.stamps if t <= later.stamps[0])


def searches(o: Outcome) -> Iterator[float]:
    by_worker = defaultdict(list)
    for each in o.attempts.values():
        for attempt in each:
            by_worker[attempt.worker].append(attempt)
    for own in by_worker.values():
        own.sort(key=lambda attempt: attempt.stamps[0])
        for earlier, later in pairwise(own):
            if earlier.done is not None:
                yield later.stamps[0] - earlier.done


def median(values: list[float]) -> str:
    return f"{statistics.median(values):.1f}" if values else "–"


def high(values: list[float]) -> str:
    return f"{values[int(0.95 * (len(values) - 1))]:.1f}" if values else "–"


def main() -> None:
    columns = []
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as folder:
            outcome = simulate(Path(folder), Conditions(workers, runs=3 * workers // 2))
        columns.append(dict(rows(outcome)))
        print(columns[-1], *outcome.faults[:10], sep="\n", flush=True)
    lines = ["# Many workers\n", (__doc__ or "").strip() + "\n"]
    for i, name in enumerate(columns[0]):
        lines.append(f"| {name} | {' | '.join(column[name] for column in columns)} |")
        lines += ["|---|---:|---:|---:|"] if i == 0 else []
    (HERE / "scaling.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
