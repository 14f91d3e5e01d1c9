"""Reproduce the paper's tables from nothing, resumable, on one machine or many."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pacbayes.cli.options import (
    AsJson,
    Quiet,
    check_scheduler,
    complete_columns,
    complete_datasets,
    given,
)
from pacbayes.cli.streams import command, duration, remark, took
from pacbayes.extras import require

if TYPE_CHECKING:
    from pacbayes.paper.store import Store
    from pacbayes.paper.sweep import Batch, Executor, Made, Sweep

__all__ = ["reproduce"]

_SWEEP = ("dataset", "columns", "repeats", "epochs", "grid")  # the options that make a sweep
What = Literal["table1", "table2", "grid", "figures", "status", "pack", "slurm"]
Format = Literal["terminal", "markdown", "csv", "latex"]


def reproduce(
    context: typer.Context,
    what: Annotated[
        What,
        typer.Argument(
            metavar="WHAT",
            help="table1, table2, grid (the search), figures, status (progress), "
            "pack (finished runs into one file per column), slurm (a job script).",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Store of runs; finished runs in it are kept.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="binary-mnist, binary-fashion-mnist or digits.", autocompletion=complete_datasets
        ),
    ] = "binary-mnist",
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns such as fix-lambda-relu,pbg.  [default: all]",
            autocompletion=complete_columns,
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
    style: Annotated[Format, typer.Option("--format", help="Format of the table.")] = "terminal",
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
    check_scheduler(executor, scheduler)
    if out.is_file() or (out / "run.json").exists():
        raise ValueError(f"--out must be a folder for a store of runs, got {out}")
    from pacbayes.paper.columns import COLUMNS
    from pacbayes.paper.store import Store
    from pacbayes.paper.sweep import Sweep

    store = Store(out.resolve())
    names = tuple(dict.fromkeys(map(str.strip, columns.split(",")))) if columns else COLUMNS
    sweep = Sweep(names, dataset, epochs, repeats, grid)
    if what == "grid":
        sweep = sweep.search_alone()
    sources = map(context.get_parameter_source, _SWEEP)
    asked = any(source is not None and source.name != "DEFAULT" for source in sources)
    if what == "status":
        _status(sweep if asked else sweep.or_last(store), store, as_json=as_json)
    elif what == "pack":
        if asked:
            options = ", ".join(f"--{name}" for name in _SWEEP)
            raise ValueError(f"pack takes every finished run of a store; leave out {options}")
        _pack(store, as_json=as_json)
    elif what == "slurm":
        _slurm(sweep, store)
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C
        make = None if as_is else _executor(store, scheduler, workers)
        _make_and_print(what, sweep, store, make, style, quiet=quiet, as_json=as_json)


def _executor(store: Store, scheduler: str | None, workers: int | None) -> Executor:
    from pacbayes.paper.sweep import dask_runs, local_runs

    if scheduler:
        return partial(dask_runs, store=store, scheduler=scheduler)
    return partial(local_runs, store=store, workers=workers)


def _make_and_print(
    what: What,
    sweep: Sweep,
    store: Store,
    executor: Executor | None,
    style: Format,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make the missing runs, print a table or the paths of figures, and say what is missing."""
    from pacbayes.paper import tables
    from pacbayes.paper.sweep import count_done, count_missing, make_runs

    if what == "figures":
        require("plots", "reproduce figures")  # before the runs are made
    started, before = time.monotonic(), count_done(sweep, store)
    for event in () if executor is None else make_runs(sweep, store, executor):
        remark(_line(event), quiet=quiet)
    if what == "figures":
        from pacbayes.paper.figures import draw_figures

        paths = map(str, draw_figures(sweep, store))
        for text in [json.dumps(list(paths))] if as_json else paths:
            print(text)
    elif as_json:
        print(json.dumps(tables.record(what, sweep, store)))
    else:
        print(tables.render(tables.rows(what, sweep, store), style), end="")
    sys.stdout.flush()
    if made := count_done(sweep, store) - before:
        following = _command("figures" if what.startswith("table") else "table1", sweep, store)
        text = f"{made} runs made in {took(started)}, in {store.folder}. Next: {following}"
        remark(text, quiet=quiet)
    if executor is not None and (missing := count_missing(sweep, store)):
        remark(f"{missing} runs failed or are missing: {_command('status', sweep, store)}")
        raise typer.Exit(1)


def _line(event: Batch | Made) -> str:
    """Return what to say of a batch that begins, or of a run that has ended."""
    from pacbayes.paper.sweep import Batch

    if isinstance(event, Batch):
        text = f"{event.left} of {event.wanted} runs to make"
        elsewhere = f"\n{event.elsewhere} of them are in progress elsewhere; waiting for them"
        return text + (elsewhere if event.elsewhere else "")
    why = f": {event.failure}" if event.failure else ""
    rest = "" if event.number == event.left else f", {duration(event.seconds_left)} left"
    return f"{event.number:4d} of {event.left}  {event.configuration.key}  {event.state}{why}{rest}"


def _status(sweep: Sweep, store: Store, *, as_json: bool) -> None:
    """Print the number of runs by state, the time left and the failures."""
    from pacbayes.paper.sweep import status

    found = status(sweep, store)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print(f"{found.done} done  {found.running} running  {found.failed} failed  ", end="")
    print(f"{found.waiting} waiting")
    others = store.count_finished() - found.done
    if others > 0:
        print(f"{others} finished runs belong to other options; give status those to see them")
    hours = f"about {found.seconds_left / 3600:.1f} hours of training left"
    if found.unknown:
        print(f"{hours}, plus {found.unknown} runs of columns without a finished run")
    elif found.seconds_left:
        print(hours)
    for key, why in found.failures.items():
        print(f"failed  {key}: {why}")


def _pack(store: Store, *, as_json: bool) -> None:
    """Pack a store; print how many runs are in archives, and what became of their folders."""
    from pacbayes.paper.store import pack

    packed = pack(store)
    if as_json:
        print(json.dumps(asdict(packed)))
        return
    print(f"{packed.runs} runs in {store.folder / 'runs'}/*.jsonl, {packed.added} of them new")
    print(f"{packed.removed} folders removed, {packed.kept} kept for their other files")


def _slurm(sweep: Sweep, store: Store) -> None:
    from pacbayes.paper.sweep import slurm_script

    count = max(len(sweep.searched()), len(sweep.columns) * sweep.repeats)
    sweep.remember(store)  # and make the folder, where Slurm writes its logs
    words = ["pacbayes", "reproduce", "table1", *_options(sweep, store)]
    print(slurm_script(count, words, store.folder), end="")


def _command(what: What, sweep: Sweep, store: Store) -> str:
    """Return a command for the same sweep."""
    return command("reproduce", what, *_options(sweep, store))


def _options(sweep: Sweep, store: Store) -> list[str]:
    options = {
        "--columns": ",".join(sweep.columns),
        "--dataset": sweep.dataset,
        "--grid": sweep.search,
        "--out": store.folder,
        "--repeats": sweep.repeats or None,  # a grid alone has none
        "--epochs": sweep.epochs,
    }
    return list(map(str, chain(*given(options).items())))
