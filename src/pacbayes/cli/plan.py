"""Plan a certificate: what to expect from n examples, or the n that a bound needs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbayes.cli.options import AsJson, numbers

if TYPE_CHECKING:
    from pacbayes.bounds.planning import Expected, Needed, Plan, Split

    Rows = tuple[Expected, ...] | tuple[Needed, ...]

__all__ = ["plan"]

_MANY = "over 10⁷"
_ASSUMPTIONS = (
    "Assumed: the model errs as stated after training on the examples outside the bound set; the "
    "number of errors is rounded up; in parentheses it is their 90 % quantile, enough in nine "
    "of ten samples. held-out is for a fixed model, the others for the randomised classifier "
    "with KL {kl:g}, without the Monte-Carlo term. δ = {delta:g}."
)


def plan(
    error: Annotated[
        str,
        typer.Option(help="Expected error after training on the rest: one number, or one a split."),
    ],
    n: Annotated[int | None, typer.Option(help="Number of all examples.")] = None,
    bound: Annotated[
        float | None, typer.Option(help="Wanted bound, to find the number of examples it needs.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Fractions of the examples for the bound.")
    ] = "0.25,0.4,0.5",
    kl: Annotated[float, typer.Option(help="KL(Q|P) near a learned prior, in nats.")] = 1.0,
    data_free_kl: Annotated[
        float | None,
        typer.Option(
            help="KL(Q|P) under a data-free prior, to plan one at the error of the smallest split."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 0.05,
    plot: Annotated[
        Path | None, typer.Option(help="Image file to write: .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Plan how much data a certificate needs.

    With --n, show the bound to expect from each split of the examples. With --bound, show the
    smallest number of examples that gives this bound.

    pacbayes plan --n 5000 --error 0.03

    pacbayes plan --n 5000 --error 0.03,0.035 --split 0.2,0.5 --data-free-kl 800

    pacbayes plan --bound 0.05 --error 0.03
    """
    from pacbayes.bounds.planning import Plan

    if (n is None) == (bound is None):
        raise ValueError("give either --n for the bound to expect, or --bound for the n it needs")
    assumed = Plan(
        _splits(numbers("split", split), numbers("error", error)), kl, data_free_kl, delta
    )
    rows = assumed.needed(bound) if bound is not None else assumed.expected(n or 0)
    if plot is not None:
        _draw(assumed, rows, plot)
    if as_json:
        plans = {"plans": [asdict(row) for row in rows]}
        print(json.dumps({"kl": kl, "data_free_kl": data_free_kl, "delta": delta, **plans}))
    else:
        _show(assumed, rows)


def _splits(fractions: list[float], errors: list[float]) -> tuple[Split, ...]:
    from pacbayes.bounds.planning import Split

    if len(errors) not in (1, len(fractions)):
        raise ValueError(
            f"--error must be one number or one for each of the {len(fractions)} splits, "
            f"got {len(errors)}"
        )
    each = errors if len(errors) > 1 else errors * len(fractions)
    return tuple(map(Split, fractions, each))


def _draw(assumed: Plan, rows: Rows, out: Path) -> None:
    from pacbayes.bounds.planning import Expected
    from pacbayes.report.plots import plot_plan

    found = [row.n if isinstance(row, Expected) else row.typical for row in rows]
    plot_plan(assumed, [n for n in found if n is not None] or [10**7], out)


def _show(assumed: Plan, rows: Rows) -> None:
    """Print a line for each split, a column for each method, and the assumptions."""
    from rich.console import Console
    from rich.table import Table

    methods = list(dict.fromkeys(row.method for row in rows))
    table = Table("for the bound", "error", *methods, box=None, pad_edge=False)
    for fraction, error in dict.fromkeys((row.fraction, row.error) for row in rows):
        here = {row.method: row for row in rows if (row.fraction, row.error) == (fraction, error)}
        cells = [_cell(here[method]) if method in here else "–" for method in methods]
        table.add_row(_part(next(iter(here.values()))), f"{100 * error:g} %", *cells)
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 100)
    console.print(table)
    console.print(_ASSUMPTIONS.format(kl=assumed.kl, delta=assumed.delta), end="")
    kl = assumed.data_free_kl
    console.print("" if kl is None else f" data-free is small-kl on all examples with KL {kl:g}.")


def _part(row: Expected | Needed) -> str:
    from pacbayes.bounds.planning import Expected

    part = f"{100 * row.fraction:.4g} %" if row.fraction < 1 else "all"
    return f"{part}: {row.bound_set}" if isinstance(row, Expected) else part


def _cell(row: Expected | Needed) -> str:
    from pacbayes.bounds import percent_up
    from pacbayes.bounds.planning import Expected

    if isinstance(row, Expected):
        return f"{percent_up(row.typical)} ({percent_up(row.cautious)})"
    return f"{row.typical or _MANY} ({row.cautious or _MANY})"
