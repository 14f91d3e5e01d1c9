"""Reproduce the paper's tables from nothing, resumable, on one machine or many."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import AsJson, Quiet
from pacbayes.extras import require

if TYPE_CHECKING:
    from pacbayes.experiments.executors import Executor
    from pacbayes.experiments.making import Batch, Made
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
            help="table1, table2, grid (the search), figures, status (progress), "
            "slurm (a job script).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Store of runs; finished runs in it are kept.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="binary-mnist, binary-fashion-mnist or digits.", autocompletion=completion.datasets
        ),
    ] = "binary-mnist",
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns such as fix-lambda-relu,pbg.  [default: all]",
            autocompletion=completion.columns,
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Runs per column.")] = 10,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each run.  [default: the paper's]")
    ] = None,
    grid: Annotated[
        Literal["chosen", "paper"],
        typer.Option(help="The paper's choice of hyper-parameters, or its whole search."),
    ] = "chosen",
    executor: Annotated[
        Literal["local", "dask"], typer.Option(help="Where the runs are made.")
    ] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Number of processes.  [default: one per core]"),
    ] = None,
    style: Annotated[
        Literal["terminal", "markdown", "csv", "latex"],
        typer.Option("--format", help="Format of the table."),
    ] = "terminal",
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Use existing runs only; make none.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the paper's runs that are missing, then print a table.

    Stop it at any time; the same command continues. Several processes may fill one folder.

    pacbayes reproduce table1 --dataset digits --epochs 5 --repeats 2 --out runs/sweep

    pacbayes reproduce status --out runs/sweep
    """
    from pacbayes.experiments.store import Store

    if (executor == "dask") != bool(scheduler):
        raise ValueError("--executor dask and --scheduler ADDRESS go together")
    if out.is_file() or (out / "run.json").exists():
        raise ValueError(f"--out must be a folder for a store of runs, got {out}")
    store = Store(out.resolve())
    sweep = _sweep(columns, dataset, epochs, repeats, grid, search_only=what == "grid")
    if what == "status":
        sources = (context.get_parameter_source(name) for name in _SWEEP)
        given = any(source is not None and source.name != "DEFAULT" for source in sources)
        _status(sweep if given else sweep.or_last(store), store, as_json=as_json)
    elif what == "slurm":
        _slurm(sweep, store)
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C
        make = None if as_is else _executor(store, scheduler, workers)
        _make_and_print(what, sweep, store, make, style, quiet=quiet, as_json=as_json)


def _sweep(
    columns: str | None,
    dataset: str,
    epochs: int | None,
    repeats: int,
    grid: Literal["chosen", "paper"],
    *,
    search_only: bool,
) -> Sweep:
    from pacbayes.experiments.columns import ADDED, COLUMNS
    from pacbayes.experiments.sweep import Sweep

    names = tuple(dict.fromkeys(name.strip() for name in (columns or "").split(",")))
    sweep = Sweep(names if columns else COLUMNS, dataset, epochs, repeats, grid)
    if not search_only:
        return sweep
    searched = tuple(name for name in sweep.columns if name not in ADDED)
    if not searched:
        raise ValueError(f"the columns {', '.join(ADDED)} have no grid; choose another")
    return Sweep(searched, dataset, epochs, repeats=0, search="paper")


def _executor(store: Store, scheduler: str | None, workers: int | None) -> Executor:
    from pacbayes.experiments.executors import dask_runs, local_runs

    if scheduler:
        return partial(dask_runs, store=store, scheduler=scheduler)
    return partial(local_runs, store=store, workers=workers)


def _make_and_print(
    what: What,
    sweep: Sweep,
    store: Store,
    executor: Executor | None,
    style: str,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from pacbayes.cli import console
    from pacbayes.experiments.making import count_done, count_missing, make_runs

    if what == "figures":
        require("plots", "reproduce figures")  # before the runs are made
    started, before = time.monotonic(), count_done(sweep, store)
    say = (lambda text: None) if quiet else console.remark
    for event in [] if executor is None else make_runs(sweep, store, executor):
        say(_line(event))
    (_figures if what == "figures" else _table)(what, sweep, store, style, as_json=as_json)
    sys.stdout.flush()
    if made := count_done(sweep, store) - before:
        took = console.duration(time.monotonic() - started)
        more = "figures" if what.startswith("table") else "table1"
        following = console.command("reproduce", more, *_options(sweep, store))
        say(f"{made} runs made in {took}, in {store.folder}. Next: {following}")
    if executor is not None and (missing := count_missing(sweep, store)):
        status = console.command("reproduce", "status", *_options(sweep, store))
        console.remark(f"{missing} runs failed or are missing: {status}")
        raise typer.Exit(1)


def _line(event: Batch | Made) -> str:
    """Return the line that tells of a batch of runs or of one run."""
    from pacbayes.cli.console import duration
    from pacbayes.experiments.making import Batch

    if isinstance(event, Batch):
        text = f"{event.left} of {event.wanted} runs to make"
        if event.elsewhere:
            text += f"\n{event.elsewhere} of them are in progress elsewhere; waiting for them"
        return text
    why = f": {event.failure}" if event.failure else ""
    last = event.number == event.left
    rest = "" if last else f", {duration(event.seconds_left)} left"
    return f"{event.number:4d} of {event.left}  {event.configuration.key}  {event.state}{why}{rest}"


def _figures(what: What, sweep: Sweep, store: Store, style: str, *, as_json: bool) -> None:
    from pacbayes.experiments.figures import draw_figures

    paths = (str(path) for path in draw_figures(sweep, store))
    for line in [json.dumps(list(paths))] if as_json else paths:
        print(line)


def _table(what: What, sweep: Sweep, store: Store, style: str, *, as_json: bool) -> None:
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
    """Return configuration, state and results of every point of the search."""
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
        print(f"{others} finished runs belong to other options; give status those to see them")
    if found.seconds_left or found.unknown:
        rest = (
            f", plus {found.unknown} runs of columns without a finished run"
            if found.unknown
            else ""
        )
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
    """Return the options of the same sweep."""
    options = ["--columns", ",".join(sweep.columns), "--dataset", sweep.dataset]
    options += ["--grid", sweep.search, "--out", str(store.folder)]
    options += ["--repeats", str(sweep.repeats)] if sweep.repeats else []  # a grid alone has none
    return options + ([] if sweep.epochs is None else ["--epochs", str(sweep.epochs)])
