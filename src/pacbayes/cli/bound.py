"""Compute a bound from its numbers, or plot bounds side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pacbayes.bounds.theorems import THEOREMS, TheoremName
from pacbayes.choices import Predictor
from pacbayes.cli.options import AsJson, given, numbers

__all__ = ["bound", "compare"]

_NAMES = "; ".join(
    f"for {predictor.title[0].lower()}{predictor.title[1:]}: "
    + ", ".join(t.name for t in THEOREMS.values() if t.predictor is predictor)
    for predictor in Predictor
)


def _free(option: str, meaning: str, *names: str) -> Any:
    """Return the option of a free parameter; its help names the theorems that have it."""
    *others, last = [t.name for t in THEOREMS.values() if option in t.free]
    theorems = f"{', '.join(others)} and {last}" if others else last
    return typer.Option(*names, help=f"{meaning}, for {theorems}.")


def bound(
    name: Annotated[TheoremName, typer.Argument(metavar="NAME", help=f"Theorem: {_NAMES}.")],
    n: Annotated[int, typer.Option(help="Number of examples the risk was measured on.")],
    kl: Annotated[
        float | None,
        typer.Option(
            help="KL(Q|P) in nats; for a drawn network, ln(dQ/dP) at its weights; "
            "held-out has none."
        ),
    ] = None,
    risk: Annotated[
        float | None, typer.Option(help="Empirical risk in [0, 1]; for tandem, that of pairs.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 0.05,
    lam: Annotated[float | None, _free("lambda", "λ, the best by default", "--lambda")] = None,
    alpha: Annotated[float | None, _free("alpha", "α, 1.001 by default")] = None,
    C: Annotated[
        float | None, _free("C", "C (catoni-c: the best, others: several, by default)")
    ] = None,
    guess: Annotated[
        float | None, _free("guess", "Risk guessed before the bound set was used")
    ] = None,
    second_moment: Annotated[
        float | None, _free("second-moment", "Second moment, the risk by default")
    ] = None,
    disagreement: Annotated[float | None, _free("disagreement", "Disagreement of pairs")] = None,
    networks: Annotated[int | None, _free("networks", "Networks drawn, 1 by default")] = None,
    levels: Annotated[str | None, _free("levels", "Loss levels such as 0,0.5,1")] = None,
    parts: Annotated[str | None, _free("parts", "Risks above each level such as 0.2,0.05")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a bound from its numbers.

    pacbayes bound catoni --risk 0.0635 --kl 2363 --n 60000 --delta 0.05

    pacbayes bound tandem --risk 0.004 --kl 2363 --n 60000

    pacbayes bound catoni-fixed --risk 0.05 --kl 1 --n 300 --guess 0.04

    pacbayes bound held-out --risk 0.05 --n 1000
    """
    from pacbayes.bounds.theorems import calculate

    free = given(
        {
            "lambda": lam,
            "alpha": alpha,
            "C": C,
            "guess": guess,
            "second-moment": second_moment,
            "disagreement": disagreement,
            "networks": networks,
        }
    )
    lists = given({"levels": levels, "parts": parts})
    free |= {option: numbers(option, text) for option, text in lists.items()}
    result = calculate(name, risk, kl, n, delta, free)
    if as_json:
        print(json.dumps(result))
    else:
        _show(name, result)


def _show(name: str, result: dict[str, float]) -> None:
    from pacbayes.bounds import percent_up

    note = " (vacuous)" if result["bound"] >= 1 else ""
    at = f" at λ = {result['lambda']:.6g}" if name == "catoni" else ""
    print(f"{name}: {percent_up(result['bound'], 4)}{note}{at}")


def compare(
    out: Annotated[Path, typer.Option(help="Image file to write: .png, .svg or .pdf.")],
    n: Annotated[int, typer.Option(help="Number of examples in the bound set.")] = 60_000,
    delta: Annotated[float, typer.Option(help="Failure probability of the bounds.")] = 0.05,
) -> None:
    """Plot the bounds side by side, over risk and KL.

    pacbayes compare --n 60000 --out bounds.png

    pacbayes compare --n 1000 --delta 0.01 --out bounds.svg
    """
    from pacbayes.report.plots import plot_bounds

    plot_bounds(n, delta, out)
    print(out)
