"""Numbers without a run: bounds, their picture, the machine's speed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pacbayes.choices import (
    Theorem,
)
from pacbayes.cli.options import (
    AsJson,
    numbers,
    set_threads,
)

__all__ = ["bench", "bound", "compare"]


def bound(
    name: Annotated[
        Theorem, typer.Argument(metavar="NAME", help="The theorem, one of those above.")
    ],
    kl: Annotated[float, typer.Option(help="KL(Q|P), in nats.")],
    n: Annotated[int, typer.Option(help="Examples the risk was measured on.")],
    risk: Annotated[
        float | None, typer.Option(help="Empirical risk in [0, 1]; for tandem that of pairs.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 0.05,
    lam: Annotated[
        float | None, typer.Option("--lambda", help="Of catoni and thiemann.  [default: the best]")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Of catoni.  [default: 1.001]")] = None,
    C: Annotated[float | None, typer.Option(help="Of catoni-c.  [default: the best]")] = None,
    second_moment: Annotated[
        float | None, typer.Option(help="Of unexpected-bernstein.  [default: the risk]")
    ] = None,
    disagreement: Annotated[float | None, typer.Option(help="Of c-bound.")] = None,
    networks: Annotated[int | None, typer.Option(help="Of disintegrated.  [default: 1]")] = None,
    levels: Annotated[str | None, typer.Option(help="Of split-kl, as 0,0.5,1.")] = None,
    parts: Annotated[str | None, typer.Option(help="Of split-kl, as 0.2,0.05.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a bound from its numbers.

    For the randomised classifier small-kl, catoni, catoni-c, mcallester, quadratic, thiemann,
    unexpected-bernstein, split-kl; for votes first-order, tandem, c-bound; for a network drawn
    once disintegrated, whose KL is ln(dQ/dP) at the drawn weights.

    pacbayes bound catoni --risk 0.0635 --kl 2363 --n 60000 --delta 0.05

    pacbayes bound tandem --risk 0.004 --kl 2363 --n 60000
    """
    from pacbayes import bounds
    from pacbayes.calculator import calculate

    given = {
        "lambda": lam,
        "alpha": alpha,
        "C": C,
        "second-moment": second_moment,
        "disagreement": disagreement,
        "networks": networks,
        "levels": None if levels is None else numbers("levels", levels),
        "parts": None if parts is None else numbers("parts", parts),
    }
    free = {option: value for option, value in given.items() if value is not None}
    result = calculate(name, risk, kl, n, delta, free)
    if as_json:
        print(json.dumps(result))
    else:
        note = " (vacuous)" if result["bound"] >= 1 else ""
        at = f" at λ = {result['lambda']:.6g}" if name == "catoni" else ""
        print(f"{name}: {bounds.percent_up(result['bound'], 4)}{note}{at}")


def compare(
    out: Annotated[Path, typer.Option(help="Image file: .png, .svg or .pdf.")],
    n: Annotated[int, typer.Option(help="Examples the risk is measured on.")] = 60_000,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 0.05,
) -> None:
    """Draw the bounds beside each other, over risk and KL.

    pacbayes compare --n 60000 --out bounds.png

    pacbayes compare --n 1000 --delta 0.01 --out bounds.svg
    """
    from pacbayes.plots import plot_bounds

    plot_bounds(n, delta, out)
    print(out)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A few cases, a few turns.")] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="For every contender.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file.  [default: print]")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast this machine makes training steps.

    The engine, the torch path, naive torch and the machine's limit, in turns.

    pacbayes bench --quick

    pacbayes bench --threads 2 --out speed.md
    """
    if out is not None and not out.parent.is_dir():  # minutes later would be a pity
        raise ValueError(f"there is no folder {out.parent} for {out.name}")
    set_threads(threads)
    from pacbayes import bench as benchmarks
    from pacbayes import console
    from pacbayes.checkpoint import write_atomically

    with console.waiting("measuring; other work on this machine spoils it"):
        found = benchmarks.measure(quick=quick)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    text = benchmarks.report(found)
    if out is None:
        print(text)
    else:
        write_atomically(out, ("# Benchmarks\n\n" + text).encode())
        print(out)
