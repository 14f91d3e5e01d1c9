"""Everything that the page about a run shows, read from its folder or computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pacbayes.certificates.certificate import Certificate
from pacbayes.choices import Predictor
from pacbayes.data import Dataset
from pacbayes.data.encoding import Encoding
from pacbayes.networks.gaussian import gaussians, kl_by_part
from pacbayes.networks.network import Network
from pacbayes.networks.weights import log_ratios
from pacbayes.report.commands import certify_command, train_command
from pacbayes.report.layers import LayerMovement, layer_movements
from pacbayes.report.reading import read_certificate, read_history
from pacbayes.report.votes import Votes, analyse_votes
from pacbayes.runs.folder import Run
from pacbayes.runs.prediction import TestErrors
from pacbayes.runs.record import RunRecord
from pacbayes.runs.run import remarked
from pacbayes.training.loop import Evaluation
from pacbayes.verify import Finding, verify

__all__ = ["IssuedCertificate", "RunContents", "collect"]


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate in the folder, the checks of `verify`, and the command that issued it."""

    file: str
    certificate: Certificate
    findings: tuple[Finding, ...]
    command: str

    @property
    def holds(self) -> bool:
        """Whether every check of the certificate held."""
        return all(finding.holds for finding in self.findings)


@dataclass(frozen=True)
class RunContents:
    """Everything that the page about a run shows; `errors` is None if none were measured."""

    folder: Path
    record: RunRecord
    issued: tuple[IssuedCertificate, ...]
    of_classes: tuple[IssuedCertificate, ...]
    errors: TestErrors | None
    history: tuple[Evaluation, ...]
    best: Evaluation
    movements: tuple[LayerMovement, ...]
    votes: Votes
    command: str
    encoding: Encoding | None = None  # of the columns of a table


def collect(run: Run, file: Path | None = None, test: Path | None = None) -> RunContents:
    """Collect the contents of the page about a trained run, without writing anything.

    Whatever can be derived is derived, not read: a file may have been changed.

    Args:
        file, test: where the run's own data are now, if they have moved.
    """
    network = run.load_network()
    # `verify` reads the data itself, so they are loaded after it: never twice at a time.
    there = [path for p in Predictor if (path := run.certificate_path(p)).exists()]
    issued = [_issued(run, network, path, file) for path in there]
    of_classes = [_issued(run, network, p, file) for k in Predictor for p in run.class_paths(k)]
    data = run.load_data(file, test)
    votes = analyse_votes(run, network, data)
    return RunContents(
        folder=run.folder,
        record=run.record,
        issued=tuple(_remarked(certificate, data) for certificate in issued),
        of_classes=tuple(of_classes),
        errors=votes.errors,
        history=read_history(run.folder / "history.json"),
        best=run.best,
        movements=layer_movements(network, run.record.layer_names),
        votes=votes,
        command=train_command(run.record, run.folder),
        encoding=data.encoding,
    )


def _remarked(issued: IssuedCertificate, data: Dataset) -> IssuedCertificate:
    return replace(issued, certificate=remarked(issued.certificate, data))


def _parts(run: Run, network: Network, predictor: Predictor) -> dict[str, float]:
    """Return the KL of every Gaussian, or ln(dQ/dP) of a drawn network; a fixed one has none."""
    if predictor is Predictor.FIXED:
        return {}
    if predictor is Predictor.DRAWN:
        ratios = log_ratios(network, run.load_drawn())
        return {name: ratios[name] for name in gaussians(network)}  # in the order of the layers
    return kl_by_part(network)


def _issued(run: Run, network: Network, path: Path, file: Path | None) -> IssuedCertificate:
    findings = tuple(verify(path, data=file))  # raises an error if the file is malformed
    claimed = read_certificate(path)
    certificate = replace(claimed, kl_by_part=_parts(run, network, claimed.kind))
    command = certify_command(certificate, run.record, run.folder)
    return IssuedCertificate(path.name, certificate, findings, command)
