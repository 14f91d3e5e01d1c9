"""What a page shows about a kernel network, from its folder, and the commands that made it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from pacbayes.bounds import percent_up
from pacbayes.certificates.certificate import read_certificate
from pacbayes.certificates.explanation import beside, percent, remarked, steps
from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.folders.kernels import KernelRun, errors_on
from pacbayes.folders.prediction import TestErrors
from pacbayes.networks.kernel import KernelNetwork
from pacbayes.report.answers import guess
from pacbayes.report.charts import Mark
from pacbayes.report.contents import Commands, Contents, Shown, Unit, portable
from pacbayes.verify import verify

__all__ = ["collect"]


def collect(run: KernelRun, file: Path | None = None, test: Path | None = None) -> Contents:
    """Collect the contents of the page about a kernel network, without writing anything.

    Args:
        file, test: where the run's own data are now, if they have moved.
    """
    network, record = run.load_network(), run.record
    there = [path for p in Predictor if (path := run.certificate_path(p)).exists()]
    data = run.load_data(file, test)
    errors = errors_on(network, data) if len(data.x_test) else None
    shown = [_shown(run, network, path, data, errors, file) for path in there]
    shown.sort(key=lambda s: s.certificate.bound)
    versions = {s.file: s.certificate.provenance.get("versions", {}) for s in shown}
    hashes = {"training data": record.data.train_sha256, "formulas": record.prior_sha256}
    own = portable(run.folder)
    name, place = record.data.source.name, shlex.quote(str(own))
    certify = f"pacbayes certify {place}"
    return Contents(
        folder=run.folder,
        data=Path(name).name,
        predictor="kernel network",
        about=f"{record.title}; data-free prior; n = {record.data.n} examples",
        certificates=tuple(shown),
        claims=(),
        unchecked="the training risk is not recomputed",
        uncertified=Commands(
            "This run is trained but not certified: nothing is guaranteed about its error yet.",
            (certify,),
            "Issue a certificate with:",
        ),
        again=Commands("Reproduce", (*_train(run, name, place), certify)),
        hashes=hashes
        | {f"posterior, {s.file}": s.certificate.provenance["posterior_sha256"] for s in shown},
        settings=asdict(record.prior) | asdict(record.settings) | {"repeats": record.repeats},
        versions={"training": record.versions} | versions,
        new="new.csv" if record.data.source.is_table else "new.npz",
    )


def _train(run: KernelRun, name: str, place: str) -> Iterator[str]:
    """Yield the command that makes the run again."""
    prior, s, source = run.record.prior, run.record.settings, run.record.data.source
    words = ["pacbayes", "train", "--dataset", shlex.quote(name), "--network", "kernel"]
    words += ["--features", prior.features, "--kernel", shlex.quote(prior.kernel)]
    given: dict[str, object] = {
        "landmarks": s.landmarks,
        "directions": s.directions,
        "epochs": s.epochs,
    }
    given |= {"seed": s.seed, "delta": s.delta, "label": source.label, "test-data": source.test}
    words += [f"--{k} {shlex.quote(str(v))}" for k, v in given.items() if v is not None]
    words += ["--deduplicate"] * source.deduplicate + ["--repeats"] * run.record.repeats
    words += [f"--drop {shlex.quote(column)}" for column in source.drop]
    yield " ".join([*words, "--out", place])


def _shown(
    run: KernelRun,
    network: KernelNetwork,
    path: Path,
    data: Dataset,
    errors: TestErrors | None,
    file: Path | None,
) -> Shown:
    """Make the view of a certificate, with the checks of `verify`."""
    findings = tuple(verify(path, data=file))  # raises an error if the file is malformed
    c = replace(read_certificate(path), kl_by_part={"head": network.process.kl})
    found = steps(c, run.record.layer_names)
    rows = beside(c, errors, run.record)
    return Shown(
        key=c.kind.value,
        file=path.name,
        title=c.kind.title,
        certificate=remarked(c, data.y_train, None, data.classes),
        steps=tuple(s for s in found if s.kind != "monte-carlo"),
        beside=(*rows, guess(data.y_train, data.classes, None)),
        findings=findings,
        marks=tuple(_marks(c.held_out, errors, c.kind)),
    )


def _marks(held_out: float | None, errors: TestErrors | None, kind: Predictor) -> Iterator[Mark]:
    if held_out is not None:
        yield Unit().mark("held-out bound", held_out, percent_up(held_out))
    if (error := getattr(errors, kind.value, None)) is not None:
        yield Unit().mark("test error", error, percent(error))
