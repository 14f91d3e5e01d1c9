"""The paper's tables from nothing, resumable, on one machine or many."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pacbayes.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pacbayes.experiments.columns import Configuration
    from pacbayes.experiments.store import Store
    from pacbayes.experiments.sweep import Sweep

__all__ = ["reproduce"]

What = Literal["table1", "table2", "figures", "status", "slurm"]


def reproduce(
    what: Annotated[What, typer.Argument(help="A table, figures, how far it is, a Slurm script.")],
    out: Annotated[Path, typer.Option(help="Store of runs; what is in it is not made again.")],
    dataset: Annotated[str, typer.Option(help="As for train.")] = "binary-mnist",
    columns: Annotated[
        str | None,
        typer.Option(help="As fix-lambda-relu,pbg.  [default: all]"),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    epochs: Annotated[int | None, typer.Option(min=1, help="[default: the paper's]")] = None,
    grid: Annotated[
        Literal["chosen", "paper"],
        typer.Option(help="The paper's choice of hyper-parameters, or its whole search."),
    ] = "chosen",
    executor: Annotated[
        Literal["local", "dask"], typer.Option(help="Who makes the runs.")
    ] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes.  [default: one per core]")
    ] = None,
    style: Annotated[
        Literal["terminal", "markdown", "csv", "latex"], typer.Option("--format")
    ] = "terminal",
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Make no runs; take those that are there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the runs of the paper's tables that are not made yet, then print a table.

    Kill it at any time: the same command goes on. A folder may be filled by several at once.

    pacbayes reproduce table1 --dataset digits --epochs 5 --repeats 2 --out runs/digits

    pacbayes reproduce status --out runs/paper
    """
    from pacbayes.data import NAMES
    from pacbayes.experiments.columns import COLUMNS
    from pacbayes.experiments.store import Store
    from pacbayes.experiments.sweep import Sweep

    names = COLUMNS if columns is None else tuple(dict.fromkeys(columns.split(",")))
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ValueError(f"no column {unknown[0]!r}; give some of {', '.join(COLUMNS)}")
    binary = [n for n in NAMES if n == "digits" or n.startswith("binary-")]
    if dataset not in binary:
        raise ValueError(f"no data set {dataset!r} of two classes; give one of {', '.join(binary)}")
    if (executor == "dask") != bool(scheduler):
        raise ValueError("--executor dask and --scheduler ADDRESS go together")
    sweep, store = Sweep(names, dataset, epochs, repeats, grid), Store(out.resolve())
    if what == "status":
        _status(sweep, store, as_json=as_json)
        return
    if what == "slurm":
        _slurm(sweep, store)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C
    missing = 0 if as_is else _make(sweep, store, scheduler, workers)
    if what == "figures":
        from pacbayes.experiments.figures import draw_figures

        for path in draw_figures(sweep, store):
            print(path)
    else:
        _print(what, sweep, store, style, as_json=as_json)
    if missing:
        print(f"{missing} runs failed or are missing: pacbayes reproduce status", file=sys.stderr)
        raise typer.Exit(1)


def _make(sweep: Sweep, store: Store, scheduler: str | None, workers: int | None) -> int:
    """The grid, then the repeats of its winners; returns how many runs there are not."""
    missing = _make_all(sweep.searched(), store, scheduler, workers)
    missing += _make_all(sweep.repeated(store), store, scheduler, workers)
    return missing + sum(sweep.winner(column, store) is None for column in sweep.columns)


def _make_all(
    asked: list[Configuration], store: Store, scheduler: str | None, workers: int | None
) -> int:
    """What is not made yet; returns how many runs there are not in the end."""
    from pacbayes.experiments.executors import dask_runs, finished, local_runs

    def executor(work: Sequence[Configuration]) -> Iterator[tuple[Configuration, str]]:
        return dask_runs(work, store, scheduler) if scheduler else local_runs(work, store, workers)

    left = [c for c in asked if store.summary(c) is None]
    if left:
        store.folder.mkdir(parents=True, exist_ok=True)
        print(f"{len(left)} of {len(asked)} runs to make", file=sys.stderr, flush=True)
        if held := sum(store.state(c) == "running" for c in left):
            note = f"{held} of them are somebody's, or were left within the last minute: these wait"
            print(note, file=sys.stderr, flush=True)
    for i, (c, state) in enumerate(finished(left, store, executor), 1):
        why = f": {store.failure(c)}" if state == "failed" else ""
        print(f"{i:4d} of {len(left)}  {c.key}  {state}{why}", file=sys.stderr, flush=True)
    return sum(store.summary(c) is None for c in asked)


def _print(what: What, sweep: Sweep, store: Store, style: str, *, as_json: bool) -> None:
    from pacbayes.experiments import tables

    found = tables.lines(sweep, store)
    if as_json:
        print(json.dumps({line.column: list(line.summaries) for line in found}))
        return
    rows = tables.table1(found) if what == "table1" else tables.table2(found, sweep, store)
    print(tables.render(rows, style), end="")  # type: ignore[arg-type]


def _status(sweep: Sweep, store: Store, *, as_json: bool) -> None:
    """What is done, running, failed and waiting, and how long the rest may take."""
    wanted = [*sweep.searched(), *sweep.repeated(store)]
    states = {c: store.state(c) for c in wanted}
    seconds: dict[str, list[float]] = {}
    for c in wanted:
        if (summary := store.summary(c)) is not None:
            seconds.setdefault(c.column, []).append(summary["seconds"])
    left = [c for c, state in states.items() if state != "done"]
    known = [sum(seconds[c.column]) / len(seconds[c.column]) for c in left if c.column in seconds]
    counts = {s: list(states.values()).count(s) for s in ("done", "running", "failed", "waiting")}
    if as_json:
        print(json.dumps({**counts, "seconds_left": sum(known), "unknown": len(left) - len(known)}))
        return
    print("  ".join(f"{count} {state}" for state, count in counts.items()))
    if left:
        strange = len(left) - len(known)
        rest = f", beside {strange} runs of columns never run" if strange else ""
        print(f"about {sum(known) / 3600:.1f} hours of training left{rest}")
    for c, state in states.items():
        if state == "failed":
            print(f"failed  {c.key}: {store.failure(c)}")


def _slurm(sweep: Sweep, store: Store) -> None:
    from pacbayes.experiments.executors import slurm_script

    options = ["--columns", ",".join(sweep.columns), "--dataset", sweep.dataset]
    options += ["--repeats", str(sweep.repeats), "--grid", sweep.search, "--out", str(store.folder)]
    options += [] if sweep.epochs is None else ["--epochs", str(sweep.epochs)]
    count = max(len(sweep.searched()), len(sweep.columns) * sweep.repeats)
    store.folder.mkdir(parents=True, exist_ok=True)  # Slurm writes its logs there
    print(slurm_script(count, ["pacbayes", "reproduce", "table1", *options], store.folder), end="")
