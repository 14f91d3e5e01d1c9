"""Make a sweep and show it: progress, tables, figures and status."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pacbayes.cli.console import duration, remark
from pacbayes.paper import tables
from pacbayes.paper.figures import draw_figures
from pacbayes.paper.sweep import Batch, Made, make_runs

if TYPE_CHECKING:
    from pacbayes.paper.columns import Configuration
    from pacbayes.paper.store import Packed, Store
    from pacbayes.paper.sweep import Executor, Status, Sweep

__all__ = ["as_record", "make", "show", "show_packed", "show_status"]


def make(sweep: Sweep, store: Store, executor: Executor, *, quiet: bool) -> None:
    """Make the missing runs, with a line for each unless `quiet`."""
    for event in make_runs(sweep, store, executor):
        remark(_batch_line(event) if isinstance(event, Batch) else _made_line(event), quiet=quiet)


def _batch_line(batch: Batch) -> str:
    text = f"{batch.left} of {batch.wanted} runs to make"
    if not batch.elsewhere:
        return text
    return f"{text}\n{batch.elsewhere} of them are in progress elsewhere; waiting for them"


def _made_line(made: Made) -> str:
    why = f": {made.failure}" if made.failure else ""
    rest = "" if made.number == made.left else f", {duration(made.seconds_left)} left"
    return f"{made.number:4d} of {made.left}  {made.configuration.key}  {made.state}{why}{rest}"


def show(what: str, sweep: Sweep, store: Store, style: tables.Format) -> None:
    """Print a table, or draw the figures and print their paths."""
    if what == "figures":
        for path in draw_figures(sweep, store):
            print(path)
    else:
        print(tables.render(_rows(what, sweep, store), style), end="")


def _rows(what: str, sweep: Sweep, store: Store) -> list[list[str]]:
    if what == "grid":
        return tables.grid_table(sweep, store)
    found = tables.lines(sweep, store)
    return tables.table1(found) if what == "table1" else tables.table2(found, sweep, store)


def as_record(what: str, sweep: Sweep, store: Store) -> object:
    """Return the same for JSON: summaries by column, points of the search, or paths of figures."""
    if what == "figures":
        return list(map(str, draw_figures(sweep, store)))
    if what == "grid":
        return [_point(c, store) for c in sweep.searched()]
    return {line.column: list(map(asdict, line.summaries)) for line in tables.lines(sweep, store)}


def _point(c: Configuration, store: Store) -> dict[str, Any]:
    """Return configuration, state and results of a point of the search."""
    point = asdict(c) | {"state": store.state(c)}
    summary = store.summary(c)
    return point if summary is None else point | asdict(summary)


def show_packed(packed: Packed, store: Store) -> None:
    """Print how many runs are in the archives now, and what became of their folders."""
    print(f"{packed.runs} runs in {store.folder / 'runs'}/*.jsonl, {packed.added} of them new")
    print(f"{packed.removed} folders removed, {packed.kept} kept for their other files")


def show_status(found: Status, store: Store) -> None:
    """Print the number of runs by state, the time left and the failures."""
    print(f"{found.done} done  {found.running} running  {found.failed} failed  ", end="")
    print(f"{found.waiting} waiting")
    others = store.count_finished() - found.done
    if others > 0:
        print(f"{others} finished runs belong to other options; give status those to see them")
    _show_time_left(found)
    for key, why in found.failures.items():
        print(f"failed  {key}: {why}")


def _show_time_left(found: Status) -> None:
    hours = f"about {found.seconds_left / 3600:.1f} hours of training left"
    if found.unknown:
        print(f"{hours}, plus {found.unknown} runs of columns without a finished run")
    elif found.seconds_left:
        print(hours)
