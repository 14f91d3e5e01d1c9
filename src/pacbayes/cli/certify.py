"""Issue a run's certificate."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated, get_args

import typer

from pacbayes.choices import (
    CertificateBound,
    MonteCarlo,
)
from pacbayes.cli.options import (
    AsJson,
    RunFolder,
    Threads,
    check_samples,
    set_threads,
)

__all__ = ["certify"]


def certify(
    run: RunFolder,
    delta: Annotated[float, typer.Option(help="Total failure probability.")] = 0.05,
    bound: Annotated[
        CertificateBound,
        typer.Option(
            metavar="NAME",
            help="Theorem, chosen in advance; it says whom it covers: "
            f"{', '.join(get_args(CertificateBound))}.",
        ),
    ] = "small-kl",
    monte_carlo: Annotated[
        MonteCarlo | None,
        typer.Option(
            metavar="NAME",
            help="Inequality for the sampled risk, chosen in advance: "
            f"{', '.join(get_args(MonteCarlo))}.  [default: kl-chernoff]",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-T", help="Draws per example.  [default: 100]")
    ] = None,
    networks: Annotated[
        int, typer.Option(min=1, max=1000, help="Of disintegrated: drawn, the best is kept.")
    ] = 1,
    exact: Annotated[
        bool, typer.Option("--exact", help="Sum a small all-sign network; no Monte-Carlo term.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the draws.  [default: the run's]")
    ] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Issue a trained run's certificate and leave it in its folder.

    It covers the randomised classifier, or with first-order and tandem the majority vote, or with
    disintegrated one network that is drawn now and kept.

    pacbayes certify runs/mine

    pacbayes certify runs/mine --bound disintegrated --networks 10
    """
    started = time.monotonic()
    if networks > 1 and bound != "disintegrated":
        raise ValueError(f"--networks is for --bound disintegrated, got --bound {bound}")
    if exact and bound == "disintegrated":
        raise ValueError("--exact is for the randomised classifier; a drawn network has no draws")
    if exact or bound == "disintegrated":  # nothing is sampled
        reason = "--exact" if exact else "--bound disintegrated"
        for option, value in (("--samples", samples), ("--monte-carlo", monte_carlo)):
            if value is not None:
                raise ValueError(
                    f"{option} {value} has no use with {reason}, which samples no risk"
                )
    samples = 100 if samples is None else samples
    check_samples(samples)
    set_threads(threads)
    from pacbayes import runs
    from pacbayes.cli import console
    from pacbayes.runs import prediction

    opened = runs.open_run(run)
    network, data = opened.load_network(), opened.load_data()
    draws = None if exact else samples
    with console.waiting(f"measuring the risk of {len(data.x_train)} examples"):
        certificate = runs.certify_run(
            opened,
            network,
            data,
            delta=delta,
            bound=bound,
            monte_carlo=monte_carlo or "kl-chernoff",
            samples=draws,
            networks=networks,
            seed=seed,
        )
        errors = prediction.test_errors(opened, network, data)
    if as_json:
        print(json.dumps({**certificate.as_dict(), "test": errors and asdict(errors)}))
    else:
        console.show_certificate(certificate, errors, opened)
        took = console.duration(time.monotonic() - started)
        console.remark(f"Took {took}. Next: {console.command('verify', run)}")
