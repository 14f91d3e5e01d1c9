"""Compute a bound from its numbers."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pacbayes.choices import (
    Theorem,
)
from pacbayes.cli.options import (
    AsJson,
    numbers,
)

__all__ = ["bound"]


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
    from pacbayes.bounds.calculator import calculate

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
