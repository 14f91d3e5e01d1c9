"""The paper's tables from nothing, resumable, on one machine or many."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import AsJson, Quiet
from pacbayes.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pacbayes.experiments.columns import Configuration
    from pacbayes.experiments.executors import Executor
    from pacbayes.experiments.store import Store
    from pacbayes.experiments.sweep import Sweep

__all__ = ["reproduce"]

_SWEEP = ("dataset", "columns", "repeats", "epochs", "grid")  # the options that make a sweep
What = Literal["table1", "table2", "grid", "figures", "status", "slurm"]


def reproduce(
    context: typer.Context,
    what: Annotated[
        What,
        typer.Argument(
            metavar="WHAT",
            help="table1, table2, grid (the search), figures, status (how far it is), "
            "slurm (a script).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Store of runs; what is in it is not made again.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="binary-mnist, binary-fashion-mnist or digits.", autocompletion=completion.datasets
        ),
    ] = "binary-mnist",
    columns: Annotated[
        str | None,
        typer.Option(
            help="As fix-lambda-relu,pbg.  [default: all]", autocompletion=completion.columns
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Runs per column.")] = 10,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of each run.  [default: the paper's]")
    ] = None,
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
        Literal["terminal", "markdown", "csv", "latex"],
        typer.Option("--format", help="Of the table."),
    ] = "terminal",
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Make no runs; take those that are there.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the paper's runs that are not made yet, then a table.

    Kill it at any time: the same command goes on. A folder may be filled by several at once.

    pacbayes reproduce table1 --dataset digits --epochs 5 --repeats 2 --out runs/sweep

    pacbayes reproduce status --out runs/sweep
    """
    from pacbayes.data import NAMES
    from pacbayes.experiments.columns import ADDED, COLUMNS
    from pacbayes.experiments.store import Store
    from pacbayes.experiments.sweep import Sweep

    names = (
        COLUMNS
        if columns is None
        else tuple(dict.fromkeys(name.strip() for name in columns.split(",")))
    )
    if unknown := [name for name in names if name not in COLUMNS]:
        hint = did_you_mean(unknown[0], COLUMNS) or f"; give some of {', '.join(COLUMNS)}"
        raise ValueError(f"no column {unknown[0]!r}{hint}")
    binary = [n for n in NAMES if n == "digits" or n.startswith("binary-")]
    if dataset not in binary:
        hint = did_you_mean(dataset, binary) or f"; give one of {', '.join(binary)}"
        raise ValueError(f"no data set {dataset!r} of two classes{hint}")
    if (executor == "dask") != bool(scheduler):
        raise ValueError("--executor dask and --scheduler ADDRESS go together")
    if what == "grid":
        names, grid, repeats = tuple(name for name in names if name not in ADDED), "paper", 0
        if not names:
            raise ValueError(f"the columns {', '.join(ADDED)} have no grid; give another")
    if out.is_file() or (out / "run.json").exists():
        raise ValueError(f"--out must be a folder of its own for a store of runs, got {out}")
    sweep, store = Sweep(names, dataset, epochs, repeats, grid), Store(out.resolve())
    if what == "status":
        sources = (context.get_parameter_source(name) for name in _SWEEP)
        given = any(source is not None and source.name != "DEFAULT" for source in sources)
        _status(sweep if given else sweep.or_last(store), store, as_json=as_json)
        return
    if what == "slurm":
        _slurm(sweep, store)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C
    from pacbayes.cli import console

    started, before = time.monotonic(), _count(sweep, store)
    say = (lambda text: None) if quiet else console.remark
    missing = 0 if as_is else _make(sweep, store, scheduler, workers, say)
    if what == "figures":
        from pacbayes.experiments.figures import draw_figures

        paths = (str(path) for path in draw_figures(sweep, store))
        for line in [json.dumps(list(paths))] if as_json else paths:
            print(line)
    else:
        _print(what, sweep, store, style, as_json=as_json)
    sys.stdout.flush()
    if made := _count(sweep, store) - before:
        took = console.duration(time.monotonic() - started)
        more = "figures" if what.startswith("table") else "table1"
        following = console.command("reproduce", more, *_options(sweep, store))
        say(f"{made} runs made in {took}, in {store.folder}. Next: {following}")
    if missing:
        status = console.command("reproduce", "status", *_options(sweep, store))
        console.remark(f"{missing} runs failed or are missing: {status}")
        raise typer.Exit(1)


def _count(sweep: Sweep, store: Store) -> int:
    """Runs that are made, of those that were asked for."""
    wanted = {*sweep.searched(), *sweep.repeated(store)}
    return sum(store.summary(c) is not None for c in wanted)


def _make(
    sweep: Sweep,
    store: Store,
    scheduler: str | None,
    workers: int | None,
    say: Callable[[str], None],
) -> int:
    """The grid, then the repeats of its winners; returns how many runs there are not."""
    from pacbayes.experiments.executors import dask_runs, local_runs

    def executor(work: Sequence[Configuration]) -> Iterator[tuple[Configuration, str]]:
        return dask_runs(work, store, scheduler) if scheduler else local_runs(work, store, workers)

    sweep.remember(store)
    missing = _make_all(sweep.searched(), store, executor, say)
    made: list[Configuration] = []
    failed, repeats = 0, sweep.repeated(store)
    while made != repeats:  # there are more where one did not learn
        failed = _make_all(repeats, store, executor, say)
        made, repeats = repeats, sweep.repeated(store)
    return missing + failed + sum(sweep.winner(column, store) is None for column in sweep.columns)


def _make_all(
    asked: list[Configuration], store: Store, executor: Executor, say: Callable[[str], None]
) -> int:
    """What is not made yet; returns how many runs there are not in the end.

    What diverged stays so, and is no gap: a repeat that did is followed by another.
    """
    from pacbayes.cli.console import duration
    from pacbayes.experiments.executors import finished

    left = [c for c in asked if store.summary(c) is None and not store.diverged(c)]
    started = time.monotonic()
    if left:
        say(f"{len(left)} of {len(asked)} runs to make")
        if held := sum(store.state(c) == "running" for c in left):
            say(f"{held} of them are somebody's, or were left within the last minute: these wait")
    for i, (c, state) in enumerate(finished(left, store, executor), 1):
        why = f": {store.failure(c)}" if state == "failed" else ""
        rest = duration((time.monotonic() - started) * (len(left) - i) / i)
        say(f"{i:4d} of {len(left)}  {c.key}  {state}{why}" + f", {rest} left" * (i < len(left)))
    return sum(store.summary(c) is None and not store.diverged(c) for c in asked)


def _print(what: What, sweep: Sweep, store: Store, style: str, *, as_json: bool) -> None:
    from pacbayes.experiments import tables

    found = tables.lines(sweep, store)
    if as_json:
        by_column = {line.column: [asdict(s) for s in line.summaries] for line in found}
        print(json.dumps(_points(sweep, store) if what == "grid" else by_column))
        return
    if what == "grid":
        rows = tables.grid_table(sweep, store)
    else:
        rows = tables.table1(found) if what == "table1" else tables.table2(found, sweep, store)
    print(tables.render(rows, style), end="")  # type: ignore[arg-type]


def _points(sweep: Sweep, store: Store) -> list[dict[str, Any]]:
    """Of the search: what each is, how far, and what it gave."""
    found = ((c, store.summary(c)) for c in sweep.searched())
    return [
        asdict(c) | {"state": store.state(c)} | ({} if s is None else asdict(s)) for c, s in found
    ]


def _status(sweep: Sweep, store: Store, *, as_json: bool) -> None:
    from pacbayes.experiments.status import status

    found = status(sweep, store)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print("  ".join(f"{getattr(found, s)} {s}" for s in ("done", "running", "failed", "waiting")))
    others = len(list((store.folder / "runs").glob("*/summary.json"))) - found.done
    if others > 0:
        print(f"{others} finished runs are there of other options: give status those")
    if found.seconds_left or found.unknown:
        rest = f", beside {found.unknown} runs of columns never run" if found.unknown else ""
        print(f"about {found.seconds_left / 3600:.1f} hours of training left{rest}")
    for key, why in found.failures.items():
        print(f"failed  {key}: {why}")


def _slurm(sweep: Sweep, store: Store) -> None:
    from pacbayes.experiments.executors import slurm_script

    count = max(len(sweep.searched()), len(sweep.columns) * sweep.repeats)
    sweep.remember(store)  # and make the folder, where Slurm writes its logs
    command = ["pacbayes", "reproduce", "table1", *_options(sweep, store)]
    print(slurm_script(count, command, store.folder), end="")


def _options(sweep: Sweep, store: Store) -> list[str]:
    """What tells a command of the same sweep."""
    options = ["--columns", ",".join(sweep.columns), "--dataset", sweep.dataset]
    options += ["--grid", sweep.search, "--out", str(store.folder)]
    options += ["--repeats", str(sweep.repeats)] if sweep.repeats else []  # none of a grid alone
    return options + ([] if sweep.epochs is None else ["--epochs", str(sweep.epochs)])
