"""Issue a run's certificate."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from pacbayes.bounds.theorems import BEST_OF, THEOREMS, CertificateBound
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.cli.options import (
    AsJson,
    DataFile,
    OnDevice,
    RunFolder,
    TestFile,
    Threads,
    best_of_scales,
    check_samples,
    check_scheduler,
    given,
    is_classifier,
    is_kernel,
    refuse_idle,
    set_threads,
)
from pacbayes.cli.streams import command, printable, remark, took

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pacbayes.certificates.certificate import Certificate
    from pacbayes.folders.folder import Run
    from pacbayes.folders.prediction import TestErrors

__all__ = ["certify", "check_dealt"]

_ONE_NETWORK = (Predictor.DRAWN, Predictor.FIXED)


def certify(
    context: typer.Context,
    run: RunFolder,
    delta: Annotated[float, typer.Option(help="Total failure probability.")] = 0.05,
    bound: Annotated[
        CertificateBound | None,
        typer.Option(
            metavar="NAME",
            help="Theorem, to be chosen in advance; it determines the predictor that is covered: "
            f"{', '.join(get_args(CertificateBound))}.  [default: small-kl, or best-of with a "
            "learned prior]",
        ),
    ] = None,
    per_class: Annotated[
        bool,
        typer.Option(
            "--per-class", help="Certify the error on each class; the classes share δ equally."
        ),
    ] = False,
    loss: Annotated[
        str,
        typer.Option(
            metavar="error|top-K",
            help="What is counted of one network: top-3 errs if the label is not among its 3 best.",
        ),
    ] = "error",
    monte_carlo: Annotated[
        MonteCarlo | None,
        typer.Option(
            metavar="NAME",
            help="Inequality for the sampled risk, to be chosen in advance: "
            f"{', '.join(get_args(MonteCarlo))}.  [default: kl-chernoff]",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-T", help="Draws per example.  [default: 100]")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Time for draws that a batch shares, of convolutions and your own modules.  "
            "[default: 150]",
        ),
    ] = None,
    networks: Annotated[
        int,
        typer.Option(min=1, max=1000, help="Networks to draw for disintegrated; keep the best."),
    ] = 1,
    priors: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Priors that were tried on these data, this one included, each paid for.  "
            "[default: the run's prior scales]",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Sum a small all-sign network exactly; no Monte-Carlo term."),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace a certificate of the same predictor by another theorem."
        ),
    ] = False,
    executor: Annotated[
        Literal["local", "dask"],
        typer.Option(help="Where the draws of the risk are made; the certificate is the same."),
    ] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler.")] = None,
    data: DataFile = None,
    test_data: TestFile = None,
    device: OnDevice = "cpu",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Issue a trained run's certificate and save it in the run folder.

    It covers the randomised classifier; with first-order and tandem, the majority vote; with
    disintegrated, one network that is drawn now and kept; with held-out, the network at the prior's
    means. best-of pays for two theorems and keeps the better: near a learned prior, held-out and
    disintegrated-fixed.

    pacbayes certify runs/mine

    pacbayes certify runs/mine --bound disintegrated --networks 10

    pacbayes certify runs/mine --per-class

    pacbayes certify runs/mine --executor dask --scheduler tcp://10.0.0.1:8786
    """
    started = time.monotonic()
    run = best_of_scales(run)
    if is_classifier(run):
        refuse_idle(context, f"{run}, a classifier", useful=("run", "delta", "as_json"))
        _certify_again(run, delta, as_json=as_json)
        return
    if is_kernel(run):
        useful = ("run", "delta", "bound", "priors", "replace", "data", "test_data", "threads")
        refuse_idle(context, f"{run}, a kernel network", useful=(*useful, "as_json"))
        set_threads(threads)
        _certify_kernel(run, delta, bound, priors, (data, test_data), replace, as_json=as_json)
        return
    sampling = {"--samples": samples, "--monte-carlo": monte_carlo}
    _check_options(bound, networks, sampling, exact=exact)
    check_samples(1 if samples is None else samples)
    check_scheduler(executor, scheduler)
    set_threads(threads)
    from pacbayes import folders
    from pacbayes.certificates.executors import dask_parts
    from pacbayes.cli import console, progress
    from pacbayes.devices import CPU, device_named
    from pacbayes.networks.risk import in_turn

    place = device_named(device)
    opened = folders.open_run(run)
    scales = len(opened.settings.prior_scales)
    if priors is not None and priors < scales:
        raise ValueError(
            f"--priors {priors}: the run tried {scales} prior scales; all are paid for"
        )
    usual = folders.usual_bound(opened, sampled=bool(exact or samples or monte_carlo))
    theorem = bound or ("held-out" if per_class and usual == BEST_OF else usual)
    if scheduler:
        check_dealt(opened, theorem, device, exact=exact)
    network = opened.load_network().to(place)
    examples = opened.load_data(data, test_data)
    issue = folders.certify_classes if per_class else folders.certify_run
    parts = partial(dask_parts, scheduler=scheduler) if scheduler else in_turn
    drawing = {"executor": parts, "follow": progress.parts_done()} | given({"seconds": seconds})
    with console.waiting(f"measuring the risk on {opened.record.data.n} examples"):
        issued = issue(
            opened,
            network,
            examples,
            delta=delta,
            bound=theorem,
            loss=loss,
            monte_carlo=monte_carlo,
            samples=None if exact else samples or "auto",
            networks=networks,
            priors=priors,
            replace_other=replace,
            **drawing,
        )
        errors = folders.test_errors(opened, network.to(CPU), examples)
    if as_json:
        print(json.dumps(_as_json(issued, errors)))
        return
    if isinstance(issued, list):
        console.show_classes(issued, opened, [printable(c.class_name or "") for c in issued])
    else:
        console.show_certificate(issued, errors, opened)
    remark(f"Took {took(started)}. Next: {command('verify', run)}")


def _certify_again(run: Path, delta: float, *, as_json: bool) -> None:
    """Issue a classifier's certificates again from the recorded predictions."""
    from pacbayes.cli import console
    from pacbayes.folders.models import issue_again

    certificate = issue_again(run, delta)
    if as_json:
        print(json.dumps(certificate.as_dict()))
        return
    print(f"Certificate: {certificate}")
    console.show_assumptions(certificate.assumptions, run / "certificate.json")
    remark(
        "Predictor, candidates and shares stay as they were: another choice would not be paid for. "
        f"δ must be chosen in advance. Next: {command('verify', run)}"
    )


def _certify_kernel(
    folder: Path,
    delta: float,
    bound: CertificateBound | None,
    priors: int | None,
    places: tuple[Path | None, Path | None],
    replace: bool,
    *,
    as_json: bool,
) -> None:
    """Issue the certificate of a kernel network."""
    from pacbayes.cli import console
    from pacbayes.folders.kernels import certify_kernel_run, kernel_test_errors, open_kernel

    started = time.monotonic()
    run = open_kernel(folder)
    examples = run.load_data(*places)
    theorem = bound or "small-kl"
    with console.waiting(f"computing the risk on {run.record.data.n} examples"):
        issued = certify_kernel_run(
            run, examples, delta=delta, bound=theorem, priors=priors, replace_other=replace
        )
        errors = kernel_test_errors(run, run.load_network(), examples)
    if as_json:
        print(json.dumps(_as_json(issued, errors)))
        return
    console.show_certificate(issued, errors, run)
    remark(f"Took {took(started)}. Next: {command('verify', folder)}")


def _check_options(
    bound: str | None, networks: int, sampling: Mapping[str, object], *, exact: bool
) -> None:
    """Refuse options that would have no effect."""
    theorem = THEOREMS.get(bound or "")
    one = theorem is not None and theorem.predictor in _ONE_NETWORK
    if exact and one:
        raise ValueError(f"--exact does not go with --bound {bound}, which samples no risk")
    reason = f"--bound {bound}" if one else "--exact"
    for option, value in sampling.items():
        if value is not None and (one or exact):
            raise ValueError(f"{option} {value} has no effect with {reason}, which samples no risk")
    if networks > 1 and bound not in ("disintegrated", "disintegrated-fixed", BEST_OF):
        raise ValueError(f"--networks {networks} needs --bound disintegrated or best-of")


def check_dealt(run: Run, bound: str, device: str, *, exact: bool) -> None:
    """Refuse --executor dask where no worker could help."""
    from pacbayes.networks.modules import OwnModule

    network, learned = run.record.network, bool(run.settings.prior_fraction)
    one = learned if bound == BEST_OF else THEOREMS[bound].predictor in _ONE_NETWORK
    if exact or one:
        raise ValueError(
            f"--executor dask has no effect with {'--exact' if exact else f'--bound {bound}'}, "
            "which samples no risk"
        )
    if network is not None and isinstance(network.architecture, OwnModule):
        raise ValueError(
            f"--executor dask: {run.folder} has code of its own (network.py), which workers do not "
            "have; leave the option out"
        )
    if device != "cpu":
        raise ValueError(f"--executor dask computes on CPUs; leave out --device {device}")


def _as_json(issued: Certificate | list[Certificate], errors: TestErrors | None) -> dict[str, Any]:
    if isinstance(issued, list):
        return {"classes": {c.class_name: c.as_dict() for c in issued}}
    return {**issued.as_dict(), "test": errors and asdict(errors)}
