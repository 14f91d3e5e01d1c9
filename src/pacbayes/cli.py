"""The command line: parses, calls, prints. Torch is imported only by the commands that need it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import pacbayes
from pacbayes.choices import (
    Activation,
    Augmentation,
    CertificateBound,
    Engine,
    Estimator,
    MonteCarlo,
    Objective,
    Protocol,
    Theorem,
)

__all__ = ["app", "main"]

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pacbayes {pacbayes.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train stochastic neural networks on PAC-Bayes objectives and certify them."""


_INTERRUPTED = 130  # what typer makes of Ctrl-C

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by train.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Threads of torch.  [default: all cores]")
]


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="Run folder; an unfinished run in it is resumed.")],
    dataset: Annotated[
        str, typer.Option(help="mnist, binary-mnist, digits, … or a .npz/.csv file.")
    ] = "binary-mnist",
    data_folder: Annotated[Path | None, typer.Option(help="Folder with IDX files.")] = None,
    test_data: Annotated[Path | None, typer.Option(help="Test file for one's own data.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of a CSV file.  [default: the last]")
    ] = None,
    fallback: Annotated[
        str | None, typer.Option(help="Data set to use if the first cannot be obtained.")
    ] = None,
    protocol: Annotated[Protocol, typer.Option(help="Recipe that the other options change.")] = (
        "fast"
    ),
    activation: Annotated[Activation, typer.Option(help="Hidden units.")] = "relu",
    objective: Annotated[
        Objective | None,
        typer.Option(help="Keep λ, learn it, or take small-kl's.  [default: fix-lambda]"),
    ] = None,
    estimator: Annotated[Estimator | None, typer.Option(help="Gradient of sign units.")] = None,
    widths: Annotated[
        str | None, typer.Option(help="Hidden layers, as 100,100,100; none for a linear model.")
    ] = None,
    learned_scale: Annotated[
        bool | None, typer.Option("--learned-scale/--unit-scale", help="Deviations of Q.")
    ] = None,
    prior_scale: Annotated[
        str | None,
        typer.Option(help="Deviation of P, or several to try, each paid for: 0.02,0.05."),
    ] = None,
    prior_fraction: Annotated[
        float | None, typer.Option(help="Part of the examples P learns from; the rest is bound on.")
    ] = None,
    prior_epochs: Annotated[int | None, typer.Option(help="Of learning P.")] = None,
    prior_rate: Annotated[float | None, typer.Option(help="Adam's rate in learning P.")] = None,
    prior_augmentation: Annotated[
        Augmentation | None, typer.Option(help="Turn and shift the images P learns from.")
    ] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="λ.  [default: n]")] = None,
    lambda_rate: Annotated[float | None, typer.Option(help="SGD rate of optim-lambda.")] = None,
    epochs: Annotated[int | None, typer.Option()] = None,
    batch_size: Annotated[int | None, typer.Option()] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Initial rate of Adam.")] = None,
    samples: Annotated[int | None, typer.Option("--samples", "-T", help="T in training.")] = None,
    kl_warmup: Annotated[
        float | None, typer.Option(help="Part of the run in which the KL's weight grows.")
    ] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Epochs.")] = None,
    evaluation_samples: Annotated[int | None, typer.Option(help="T in evaluations.")] = None,
    engine: Annotated[Engine | None, typer.Option(help="native where it can be, or torch.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ of the bound that guides.")] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Train a network and leave a run folder; the same command again resumes it.

    pacbayes train --out runs/relu

    pacbayes train --dataset my.csv --activation sign --epochs 100 --out runs/mine

    pacbayes train --dataset mnist --prior-fraction 0.5 --prior-augmentation images --out runs/ten
    """
    scales = None if prior_scale is None else _numbers("prior-scale", prior_scale)
    changes: dict[str, Any] = {
        "estimator": estimator,
        "widths": None if widths is None else _widths(widths),
        "learned_scale": learned_scale,
        "prior_scale": scales and scales[0],
        "prior_scales": tuple(scales) if scales and len(scales) > 1 else None,
        "prior_fraction": prior_fraction,
        "prior_epochs": prior_epochs,
        "prior_rate": prior_rate,
        "prior_augmentation": prior_augmentation,
        "lam": lam,
        "lambda_rate": lambda_rate,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "samples": samples,
        "kl_warmup": kl_warmup,
        "evaluate_every": evaluate_every,
        "evaluation_samples": evaluation_samples,
        "engine": engine,
        "delta": delta,
        "seed": seed,
    }
    from pacbayes.settings import Settings

    given = {name: value for name, value in changes.items() if value is not None}
    settings = Settings.of(protocol, activation, objective, **given)  # complains before data load
    _set_threads(threads)
    from pacbayes import console, preparation, runs
    from pacbayes.data import DataError
    from pacbayes.records import DataSource
    from pacbayes.training import learned_nothing

    if Path(dataset).suffix:
        dataset = str(Path(dataset).resolve())
    texts = [None if path is None else str(path.resolve()) for path in (data_folder, test_data)]
    source = DataSource(dataset, texts[0], texts[1], label)
    try:
        data = source.load()
    except DataError as error:
        if fallback is None:
            raise
        console.shout(f"{error}\n\nUSING {fallback} INSTEAD OF {dataset}.")
        source = DataSource(fallback)
        data = source.load()
        if widths is None:  # bundled data are too few to pay for three hidden layers
            given["widths"] = ()
    settings = Settings.of(protocol, activation, objective, classes=len(data.classes), **given)
    chosen, begun = settings.prior_scales or (settings.prior_scale,), []
    for scale in chosen:  # every prior is there before the first look at the bound set
        own = settings.model_copy(update={"prior_scale": scale})
        folder = out if len(chosen) == 1 else out / f"scale-{scale:g}"
        steps = preparation.prior_steps(folder, own, source, data)
        console.show_prior(steps, own, quiet=as_json)
        begun.append(preparation.prepare(folder, own, source, data))
    for run in begun:
        note = runs.engine_note(run, data)
        console.show_training(runs.train_run(run, data), run, note, quiet=as_json)
    best = min(begun, key=lambda run: run.best.bound)
    if as_json:
        print(json.dumps({"run": str(best.folder), "evaluation": asdict(best.best)}))
        return
    if learned_nothing(best.best.risk, len(data.classes)):
        print(f"The network has learned nothing: {best.record.data.n} examples may be too")
        print("few for its size. Try fewer units (--widths 30) or none (--widths none).")
    of = f"Best of {len(begun)} prior scales: {best.settings.prior_scale:g}. " if begun[1:] else ""
    print(f"Trained. {of}Next: pacbayes certify {best.folder}")


@app.command()
def certify(
    run: RunFolder,
    delta: Annotated[float, typer.Option(help="Total failure probability.")] = 0.05,
    bound: Annotated[
        CertificateBound, typer.Option(help="Theorem, chosen in advance; it says whom it covers.")
    ] = "small-kl",
    monte_carlo: Annotated[
        MonteCarlo, typer.Option(help="Inequality for the sampled risk, chosen in advance.")
    ] = "kl-chernoff",
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws per example.")] = 100,
    networks: Annotated[
        int, typer.Option(min=1, max=1000, help="Of disintegrated: drawn, the best is kept.")
    ] = 1,
    exact: Annotated[
        bool, typer.Option("--exact", help="Sum a small all-sign network; no Monte-Carlo term.")
    ] = False,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="The data do repeat themselves.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the draws.  [default: the run's]")
    ] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Issue a trained run's certificate, print it and leave it in the folder.

    It covers the randomised classifier, or with first-order and tandem the majority vote, or with
    disintegrated one network that is drawn now and kept.

    pacbayes certify runs/mine

    pacbayes certify runs/mine --bound disintegrated --networks 10
    """
    _check_samples(samples)
    _set_threads(threads)
    from pacbayes import console, predictions, runs

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
            monte_carlo=monte_carlo,
            samples=draws,
            networks=networks,
            seed=seed,
            repeats=repeats,
        )
        errors = predictions.test_errors(opened, network, data)
    if as_json:
        print(json.dumps({**certificate.as_dict(), "test": errors and asdict(errors)}))
    else:
        console.show_certificate(certificate, errors, opened)


@app.command()
def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate.json, or its run folder.")],
    full: Annotated[
        bool, typer.Option("--full", help="Also sample the risk anew; takes a minute on MNIST.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a certificate from the files beside it: exit code 1 if anything does not hold.

    Hashes, the δ ledger, n, the KL, the Monte-Carlo term and the bound are derived anew in interval
    arithmetic, without torch.
    """
    from pacbayes.verify import verify as check

    path = certificate / "certificate.json" if certificate.is_dir() else certificate
    found = []
    for finding in check(path, full=full):
        found.append(finding)
        if not as_json:
            print(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.name}: {finding.detail}")
    holds = all(f.holds for f in found)
    if as_json:
        print(json.dumps({"holds": holds, "findings": [asdict(f) for f in found]}))
    else:
        print("The certificate holds." if holds else "The certificate does NOT hold.")
    if not holds:
        raise typer.Exit(1)


@app.command()
def predict(
    run: RunFolder,
    data: Annotated[
        str, typer.Argument(help="A .npz/.csv file, or a data set's name (test part).")
    ],
    method: Annotated[
        str,
        typer.Option(
            help="randomised: fresh weights each time, what certificate.json covers; vote: "
            "majority over T draws; drawn: the network that disintegrated certified."
        ),
    ] = "randomised",
    samples: Annotated[int, typer.Option("--samples", "-T", help="Draws of a vote.")] = 100,
    label: Annotated[str | None, typer.Option(help="Label column, if there is one.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file.  [default: print]")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict labels with a trained run, by any of its predictors."""
    if method not in ("randomised", "vote", "drawn"):
        raise ValueError(f"method must be randomised, vote or drawn, got {method!r}")
    _check_samples(samples)
    _set_threads(threads)
    from pacbayes import console, predictions, runs

    opened = runs.open_run(run)
    prediction = predictions.predict(opened, data, method, samples=samples, seed=seed, label=label)
    console.show_prediction(prediction, out, as_json=as_json)


@app.command()
def bound(
    name: Annotated[Theorem, typer.Argument(metavar="NAME", help="A theorem, as small-kl.")],
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
        "levels": None if levels is None else _numbers("levels", levels),
        "parts": None if parts is None else _numbers("parts", parts),
    }
    free = {option: value for option, value in given.items() if value is not None}
    result = calculate(name, risk, kl, n, delta, free)
    if as_json:
        print(json.dumps(result))
    else:
        note = " (vacuous)" if result["bound"] >= 1 else ""
        at = f" at λ = {result['lambda']:.6g}" if name == "catoni" else ""
        print(f"{name}: {bounds.percent_up(result['bound'], 4)}{note}{at}")


@app.command()
def plot(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="Image file: .png, .svg or .pdf.")],
) -> None:
    """Draw a run's bound, risk and KL over its epochs."""
    from pacbayes import runs
    from pacbayes.plots import plot_history

    plot_history(runs.open_run(run), out)
    print(out)


@app.command()
def compare(
    out: Annotated[Path, typer.Option(help="Image file: .png, .svg or .pdf.")],
    n: Annotated[int, typer.Option(help="Examples the risk is measured on.")] = 60_000,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 0.05,
) -> None:
    """Draw the bounds beside each other, over risk and KL.

    pacbayes compare --n 60000 --out bounds.png
    """
    from pacbayes.plots import plot_bounds

    plot_bounds(n, delta, out)
    print(out)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="A few cases, a few turns.")] = False,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="For every contender.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file.  [default: print]")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a training step: engine, torch path, naive torch and the machine's limit.

    pacbayes bench --quick
    """
    if out is not None and not out.parent.is_dir():  # minutes later would be a pity
        raise ValueError(f"there is no folder {out.parent} for {out.name}")
    _set_threads(threads)
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


def main() -> None:
    """Run the command line: exit code 0, 2 for bad input, 130 when interrupted."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        code = _complain(error.format_message().replace("Value error, ", ""))
    except (ValueError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        if os.environ.get("PACBAYES_TRACEBACK"):
            raise
        code = _complain(_one_line(error))
    if code == _INTERRUPTED:
        hint = "; the same command resumes" if sys.argv[1:2] == ["train"] else ""
        print(f"\ninterrupted{hint}", file=sys.stderr)
    sys.exit(code)


def _complain(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _one_line(error: Exception) -> str:
    """What was wrong with which value; pydantic's errors run to paragraphs otherwise."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error)
    first = details()[0]
    where = ".".join(map(str, first["loc"])).replace("lam", "lambda").replace("_", "-")
    what = first["msg"].removeprefix("Value error, ")
    return f"--{where}: {what}, got {first['input']!r}" if where else what


def _widths(text: str) -> tuple[int, ...]:
    if text == "none":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--widths must look like 100,100,100 or none, got {text!r}") from None


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--{name} must be numbers, as 0,0.5,1, got {text!r}") from None


def _check_samples(samples: int) -> None:
    if not 1 <= samples <= 100_000:
        raise ValueError(f"--samples must be at least 1 and at most 100000, got {samples}")


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
