"""Train a run and certify it, in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from pacbayes.bounds.theorems import BEST_OF, CertificateBound
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import FORMAT, Certificate
from pacbayes.certificates.certify import certify
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.data import Dataset
from pacbayes.files import file_sha256, save_json, save_tensors
from pacbayes.networks.network import Network
from pacbayes.networks.weights import Weights
from pacbayes.runs.folder import Run
from pacbayes.runs.versions import versions
from pacbayes.training.loop import Progress, run_to_end
from pacbayes.training.trainer import Trainer, why_torch

__all__ = ["certify_run", "engine_note", "train_run"]


def engine_note(run: Run, data: Dataset) -> str:
    """Return which engine makes the run's steps and, if it is PyTorch, why."""
    reason = why_torch(run.build_network(), data.tensors("train")[0], run.settings)
    return "native engine" if reason is None else f"torch engine ({reason})"


def train_run(run: Run, data: Dataset) -> Iterator[Progress]:
    """Train from the last checkpoint to the end, saving along the way."""
    trainer = Trainer(run.start_network(), *run.bound_set(data), run.settings)
    checkpoint, owner = run.folder / "checkpoint.safetensors", {"run": run.sha256}
    if checkpoint.exists():
        trainer.restore(*run.load_own(checkpoint.name))

    def save() -> None:
        tensors, record = trainer.state()
        save_tensors(checkpoint, tensors, record | owner)
        save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])

    yield from run_to_end(trainer, save)
    save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])
    save_tensors(run.folder / "posterior.safetensors", trainer.best, owner)


def certify_run(
    run: Run,
    network: Network,
    data: Dataset,
    *,
    delta: float,
    bound: CertificateBound,
    samples: int | None,
    monte_carlo: MonteCarlo = "kl-chernoff",
    networks: int = 1,
    priors: int | None = None,
) -> Certificate:
    """Issue the certificate of a trained run and save it in the folder.

    Args:
        priors: how many priors were tried on these data; by default the run's prior scales.
    """
    shared: dict[str, Any] = {
        "delta": delta,
        "priors": priors or max(1, len(run.settings.prior_scales)),
        "repeats": True,  # `prepare` has checked all examples
        "assumptions": _assumptions(run),
    }
    x, y = run.bound_set(data)
    if bound == "held-out":
        return _saved(run, certify_fixed(network, x, y, **shared))
    if bound == "disintegrated":
        issued, drawn = certify_drawn(network, x, y, networks=networks, **shared)
        return _saved_with(run, issued, drawn.weights)
    if bound == BEST_OF and run.settings.prior_fraction:
        return _saved_with(run, *certify_network(network, x, y, networks=networks, **shared))
    issued = certify(network, x, y, bound=bound, monte_carlo=monte_carlo, samples=samples, **shared)
    return _saved(run, issued)


def _saved_with(run: Run, issued: Certificate, weights: Weights) -> Certificate:
    """Save a certificate of one network, and the network if it was drawn."""
    if issued.kind is not Predictor.DRAWN:
        return _saved(run, issued)
    path = run.folder / "drawn.safetensors"
    save_tensors(path, weights, {"run": run.sha256})
    return _saved(run, issued, drawn_sha256=file_sha256(path))


def _assumptions(run: Run) -> Assumptions:
    s = run.settings
    split_seed = s.seed if s.prior_fraction else None
    source = run.record.data.source
    return Assumptions(
        source.name,
        repeats=s.repeats,
        split_seed=split_seed,
        deduplicated=source.deduplicate or None,
    )


def _saved(run: Run, issued: Certificate, **hashes: str) -> Certificate:
    """Save a run's certificate with its provenance, and return it."""
    provenance = {
        "data_sha256": run.record.data.train_sha256,
        "split_sha256": run.record.data.split_sha256,
        "prior_sha256": run.record.prior_sha256,
        "posterior_sha256": file_sha256(run.folder / "posterior.safetensors"),
        "versions": versions(),
        **hashes,
    }
    certificate = replace(issued, provenance=provenance)
    path = run.certificate_path(certificate.kind)
    save_json(path, {"format": FORMAT, **certificate.as_dict()})
    return certificate
