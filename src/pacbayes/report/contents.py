"""Everything that a run's page shows, read from its folder and computed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from pacbayes.certificates.certificate import Certificate
from pacbayes.certificates.explanation import layer_of
from pacbayes.files import load_record
from pacbayes.networks.gaussian import Gaussian, gaussians
from pacbayes.networks.network import Network
from pacbayes.report.commands import certify_command, train_command
from pacbayes.report.reading import read_certificate, read_history
from pacbayes.report.votes import Votes, look_at_votes
from pacbayes.runs.folder import Run
from pacbayes.runs.prediction import TestErrors
from pacbayes.runs.record import RunRecord
from pacbayes.training.loop import Evaluation
from pacbayes.verify import Finding, verify

__all__ = ["Histogram", "Issued", "Movement", "RunFacts", "collect"]

_BINS = 41  # odd, so that one is about zero


@dataclass(frozen=True)
class Issued:
    """A certificate in the folder, what `verify` finds of it, and the command that issued it."""

    file: str
    certificate: Certificate
    findings: tuple[Finding, ...]
    command: str

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)


@dataclass(frozen=True)
class Histogram:
    """How many numbers lie in each of the equal parts between two ends."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Movement:
    """How far a layer went from its prior, weights and biases together.

    Attributes:
        rms, largest: of (μ − μ₀)/σ₀.
        quantiles: of σ/σ₀, at 5, 50 and 95 per cent.
        means, scales: histograms of the two; None where the scales stay the prior's.
    """

    layer: str
    weights: int
    kl: float
    rms: float
    largest: float
    quantiles: tuple[float, float, float]
    means: Histogram
    scales: Histogram | None


@dataclass(frozen=True)
class RunFacts:
    folder: Path
    record: RunRecord
    issued: tuple[Issued, ...]
    errors: TestErrors | None
    history: tuple[Evaluation, ...]
    best: Evaluation
    movements: tuple[Movement, ...]
    votes: Votes
    command: str


def collect(run: Run) -> RunFacts:
    """All facts of a trained run; nothing is written."""
    network, data = run.load_network(), run.load_data()
    test = run.folder / "test.json"
    return RunFacts(
        folder=run.folder,
        record=run.record,
        issued=tuple(_issued(run)),
        errors=load_record(TestErrors, test) if test.exists() else None,
        history=read_history(run.folder / "history.json"),
        best=run.best,
        movements=_movements(network),
        votes=look_at_votes(run, network, data),
        command=train_command(run.record, run.folder),
    )


def _issued(run: Run) -> list[Issued]:
    """The certificates there are: of the randomised classifier, of the vote, of a drawn network."""
    found = []
    for name in ("certificate.json", "certificate-vote.json", "certificate-drawn.json"):
        path = run.folder / name
        if path.exists():
            findings = tuple(verify(path))  # which refuses what is malformed
            certificate = read_certificate(path)
            command = certify_command(certificate, run.record, run.folder)
            found.append(Issued(name, certificate, findings, command))
    return found


@torch.no_grad()
def _movements(network: Network) -> tuple[Movement, ...]:
    layers: dict[str, list[Gaussian]] = {}
    for name, g in gaussians(network).items():
        layers.setdefault(layer_of(name), []).append(g)
    order = sorted(layers, key=lambda layer: (layer == "the last layer", layer.zfill(12)))
    shifts = {layer: torch.cat([_shift(g) for g in layers[layer]]) for layer in order}
    ratios = {layer: torch.cat([_ratio(g) for g in layers[layer]]) for layer in order}
    far = max(s.abs().max().item() for s in shifts.values()) or 1.0
    low = min(r.min().item() for r in ratios.values())
    high = max(r.max().item() for r in ratios.values())
    return tuple(
        Movement(
            layer=layer,
            weights=shifts[layer].numel(),
            kl=sum(g.kl().item() for g in layers[layer]),
            rms=shifts[layer].square().mean().sqrt().item(),
            largest=shifts[layer].abs().max().item(),
            quantiles=_quantiles(ratios[layer]),
            means=_histogram(shifts[layer], -far, far),
            scales=_histogram(ratios[layer], low, high) if low < high else None,
        )
        for layer in order
    )


def _shift(g: Gaussian) -> torch.Tensor:
    """(μ − μ₀)/σ₀."""
    moved = g.mean.double() - g.prior_mean.double()
    return (moved * (-g.prior_log_scale.double()).exp()).flatten()


def _ratio(g: Gaussian) -> torch.Tensor:
    """σ/σ₀."""
    ratio = (g.log_scale.double() - g.prior_log_scale.double()).exp()
    return ratio.expand(g.mean.shape).flatten()


def _quantiles(values: torch.Tensor) -> tuple[float, float, float]:
    ordered = values.sort().values
    low, middle, high = (ordered[round(q * (len(ordered) - 1))].item() for q in (0.05, 0.5, 0.95))
    return low, middle, high


def _histogram(values: torch.Tensor, low: float, high: float) -> Histogram:
    counts = torch.histc(values, _BINS, low, high).long().tolist()
    return Histogram(low, high, tuple(counts))
