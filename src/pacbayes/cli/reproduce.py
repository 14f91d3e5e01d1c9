"""Reproduce the paper's tables from nothing, resumable, on one machine or many."""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pacbayes.cli import completion
from pacbayes.cli.options import AsJson, Quiet, check_scheduler, given
from pacbayes.extras import require

if TYPE_CHECKING:
    from pacbayes.paper.store import Store
    from pacbayes.paper.sweep import Executor, Sweep

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
    _check_options(out, executor, scheduler)
    from pacbayes.paper.store import Store

    store = Store(out.resolve())
    sweep = _sweep(columns, dataset, epochs, repeats, grid, search_only=what == "grid")
    if what == "status":
        _status(sweep if _asked(context) else sweep.or_last(store), store, as_json=as_json)
    elif what == "pack":
        _pack(store, asked=_asked(context), as_json=as_json)
    elif what == "slurm":
        _slurm(sweep, store)
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as with Ctrl-C
        make = None if as_is else _executor(store, scheduler, workers)
        _make_and_print(what, sweep, store, make, style, quiet=quiet, as_json=as_json)


def _check_options(out: Path, executor: str, scheduler: str | None) -> None:
    check_scheduler(executor, scheduler)
    if out.is_file() or (out / "run.json").exists():
        raise ValueError(f"--out must be a folder for a store of runs, got {out}")


def _sweep(
    columns: str | None,
    dataset: str,
    epochs: int | None,
    repeats: int,
    grid: Literal["chosen", "paper"],
    *,
    search_only: bool,
) -> Sweep:
    from pacbayes.paper.columns import COLUMNS
    from pacbayes.paper.sweep import Sweep

    names = _names(columns) if columns else COLUMNS
    sweep = Sweep(names, dataset, epochs, repeats, grid)
    return _search_of(sweep) if search_only else sweep


def _names(columns: str) -> tuple[str, ...]:
    """Return the columns between commas, each once."""
    return tuple(dict.fromkeys(map(str.strip, columns.split(","))))


def _search_of(sweep: Sweep) -> Sweep:
    """Return the paper's search alone, without repeats of its winners."""
    from pacbayes.paper.columns import ADDED

    searched = tuple(name for name in sweep.columns if name not in ADDED)
    if not searched:
        raise ValueError(f"the columns {', '.join(ADDED)} have no grid; choose another")
    return replace(sweep, columns=searched, repeats=0, search="paper")


def _asked(context: typer.Context) -> bool:
    """Return whether any option that makes a sweep was given."""
    sources = map(context.get_parameter_source, _SWEEP)
    return any(source is not None and source.name != "DEFAULT" for source in sources)


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
    from pacbayes.cli import sweeps
    from pacbayes.cli.console import remark, took
    from pacbayes.paper.sweep import count_done

    if what == "figures":
        require("plots", "reproduce figures")  # before the runs are made
    started, before = time.monotonic(), count_done(sweep, store)
    if executor is not None:
        sweeps.make(sweep, store, executor, quiet=quiet)
    if as_json:
        print(json.dumps(sweeps.as_record(what, sweep, store)))
    else:
        sweeps.show(what, sweep, store, style)
    sys.stdout.flush()
    if made := count_done(sweep, store) - before:
        following = _command("figures" if what.startswith("table") else "table1", sweep, store)
        text = f"{made} runs made in {took(started)}, in {store.folder}. Next: {following}"
        remark(text, quiet=quiet)
    if executor is not None:
        _check_complete(sweep, store)


def _check_complete(sweep: Sweep, store: Store) -> None:
    """Exit with an error if runs are missing."""
    from pacbayes.cli.console import remark
    from pacbayes.paper.sweep import count_missing

    if missing := count_missing(sweep, store):
        remark(f"{missing} runs failed or are missing: {_command('status', sweep, store)}")
        raise typer.Exit(1)


def _status(sweep: Sweep, store: Store, *, as_json: bool) -> None:
    from pacbayes.cli import sweeps
    from pacbayes.paper.sweep import status

    found = status(sweep, store)
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        sweeps.show_status(found, store)


def _pack(store: Store, *, asked: bool, as_json: bool) -> None:
    from pacbayes.cli import sweeps
    from pacbayes.paper.store import pack

    if asked:
        options = ", ".join(f"--{name}" for name in _SWEEP)
        raise ValueError(f"pack takes every finished run of a store; leave out {options}")
    packed = pack(store)
    if as_json:
        print(json.dumps(asdict(packed)))
    else:
        sweeps.show_packed(packed, store)


def _slurm(sweep: Sweep, store: Store) -> None:
    from pacbayes.paper.sweep import slurm_script

    count = max(len(sweep.searched()), len(sweep.columns) * sweep.repeats)
    sweep.remember(store)  # and make the folder, where Slurm writes its logs
    command = ["pacbayes", "reproduce", "table1", *_options(sweep, store)]
    print(slurm_script(count, command, store.folder), end="")


def _command(what: What, sweep: Sweep, store: Store) -> str:
    """Return a command for the same sweep."""
    from pacbayes.cli import console

    return console.command("reproduce", what, *_options(sweep, store))


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
