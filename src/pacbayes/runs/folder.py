"""A run on disk: settings and prior first, then checkpoints, then a posterior and a certificate.

run.json                what was asked for, on which data, with which versions
split.safetensors       the bound set's indices, where the prior learned from the others
learning.safetensors    where the learning of the prior stands, until it is done
prior.safetensors       P, written before the bound set is looked at
checkpoint.safetensors  where training stands
history.json            every evaluation
posterior.safetensors   Q, the best evaluated epoch by bound
certificate.json        what `certify` issued; -vote.json and -drawn.json for other predictors
drawn.safetensors       a network drawn from Q and kept, where one was certified
test.json               errors on the test part, where there is one
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from pacbayes.certificates.certificate import Certificate, certify
from pacbayes.certificates.drawn import certify_drawn
from pacbayes.choices import DRAWN, VOTE, CertificateBound, MonteCarlo
from pacbayes.data import DataError, Dataset
from pacbayes.files import (
    DamagedFileError,
    file_sha256,
    load_json,
    load_tensors,
    save_json,
    save_tensors,
)
from pacbayes.networks.network import Network, build_network
from pacbayes.randomness import seeded, stream
from pacbayes.runs.record import RunRecord, versions
from pacbayes.settings import Settings
from pacbayes.training.loop import Evaluation, Progress
from pacbayes.training.trainer import Trainer, why_torch

__all__ = [
    "CHECKPOINT_SECONDS",
    "Run",
    "certify_run",
    "engine_note",
    "open_run",
    "train_run",
]

CHECKPOINT_SECONDS = 10.0  # at most so much work is lost, beside an unfinished epoch


@dataclass(frozen=True)
class Run:
    """An open run folder."""

    folder: Path
    record: RunRecord

    @property
    def settings(self) -> Settings:
        return self.record.settings

    @property
    def trained(self) -> bool:
        return (self.folder / "posterior.safetensors").exists()

    @property
    def changed_versions(self) -> list[str]:
        """What differs from when the run was made: its last bits may then differ, too."""
        now = versions()
        then = self.record.versions
        return [f"{k} {v}, now {now.get(k)}" for k, v in then.items() if now.get(k) != v]

    @property
    def sha256(self) -> str:
        """Of run.json: what checkpoints and posteriors carry, so that they stay with their run."""
        return file_sha256(self.folder / "run.json")

    def certificate_path(self, predictor: str) -> Path:
        """Where the certificate of a predictor lies: each has its own."""
        names = {VOTE: "certificate-vote.json", DRAWN: "certificate-drawn.json"}
        return self.folder / names.get(predictor, "certificate.json")

    @property
    def history(self) -> list[Evaluation]:
        """Evaluations up to the checkpoint, from which training goes on."""
        if not (self.folder / "checkpoint.safetensors").exists():
            return []
        _, record = self.load_own("checkpoint.safetensors")
        return [Evaluation(**e) for e in record["history"]]

    @property
    def best(self) -> Evaluation:
        """The evaluation that the posterior is from."""
        history = [Evaluation(**e) for e in load_json(self.folder / "history.json")]
        return min(history, key=lambda e: e.guide)

    def load_data(self) -> Dataset:
        """The run's data, bit for bit those it was trained on."""
        data = self.record.data.source.load()
        if data.train_sha256 != self.record.data.train_sha256:
            raise DataError(f"{data.name} is not the data that {self.folder} was trained on")
        return data

    def load_own(self, name: str) -> tuple[dict[str, Tensor], Any]:
        """Tensors and record of one of the run's files, refused if it is another run's."""
        path = self.folder / name
        tensors, record = load_tensors(path)
        if record.get("run") != self.sha256:
            raise DamagedFileError(f"{path} belongs to another run")
        return tensors, record

    def load_drawn(self) -> dict[str, Tensor]:
        """Weights of the network that was drawn, kept and certified."""
        path, claim = self.folder / "drawn.safetensors", self.certificate_path(DRAWN)
        if not (path.exists() and claim.exists()):
            raise ValueError(
                f"no network is kept: pacbayes certify {self.folder} --bound disintegrated"
            )
        if load_json(claim).get("provenance", {}).get("drawn_sha256") != file_sha256(path):
            raise DamagedFileError(f"{path} is not the network that {claim.name} is about")
        return self.load_own(path.name)[0]

    def load_prior(self) -> dict[str, Tensor]:
        """P as it was written before the data were looked at."""
        path = self.folder / "prior.safetensors"
        if not path.exists():
            raise DamagedFileError(f"there is no {path}, the run's prior")
        if file_sha256(path) != self.record.prior_sha256:
            raise DamagedFileError(f"{path} is damaged: it is not the run's prior")
        return load_tensors(path)[0]

    def bound_set(self, data: Dataset) -> tuple[Tensor, Tensor]:
        """The examples the certificate is about: all, or those the prior did not learn from."""
        x, y = data.tensors("train")
        if self.record.data.split_sha256 is None:
            return x, y
        path = self.folder / "split.safetensors"
        if not path.exists() or file_sha256(path) != self.record.data.split_sha256:
            raise DamagedFileError(f"{path} is not the run's split")
        index = load_tensors(path)[0]["bound"]
        return x[index].contiguous(), y[index].contiguous()

    def build_network(self) -> Network:
        """The network that the settings and the data call for, untrained."""
        return build_network(
            self.settings, self.record.data.features, len(self.record.data.classes)
        )

    def start_network(self) -> Network:
        """The network before training: Q = P."""
        network, prior = self.build_network(), self.load_prior()
        means = {k.replace("prior_mean", "mean"): v for k, v in prior.items() if "prior_mean" in k}
        network.load_state_dict(network.state_dict() | prior | means)
        return network

    def load_network(self) -> Network:
        """The trained network: P and Q as saved."""
        if not self.trained:
            raise ValueError(
                f"{self.folder} is not trained to the end; the same train command resumes it"
            )
        network = self.build_network()
        posterior, _ = self.load_own("posterior.safetensors")
        if posterior.keys() != dict(network.named_parameters()).keys():
            raise DamagedFileError(f"{self.folder / 'posterior.safetensors'} is not a posterior")
        network.load_state_dict(network.state_dict() | posterior | self.load_prior())
        return network


def open_run(folder: Path) -> Run:
    """An existing run."""
    path = folder / "run.json"
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder (no run.json in it)")
    try:
        return Run(folder, RunRecord.model_validate(load_json(path)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "as a whole"
        raise DamagedFileError(f"{path} is damaged: {where}: {first['msg']}") from error


def engine_note(run: Run, data: Dataset) -> str:
    """Which engine makes the run's steps, and where it is torch, why."""
    reason = why_torch(run.build_network(), data.tensors("train")[0], run.settings)
    return "native engine" if reason is None else f"torch engine ({reason})"


def train_run(run: Run, data: Dataset) -> Iterator[Progress]:
    """Train from the last checkpoint to the end, saving as it goes."""
    trainer = Trainer(run.start_network(), *run.bound_set(data), run.settings)
    checkpoint, belonging = run.folder / "checkpoint.safetensors", {"run": run.sha256}
    if checkpoint.exists():
        trainer.restore(*run.load_own(checkpoint.name))
    saved = time.monotonic()
    for progress in trainer.steps():
        epoch_over = progress.batch == progress.batches
        if epoch_over and (progress.evaluation or time.monotonic() - saved > CHECKPOINT_SECONDS):
            tensors, record = trainer.state()
            save_tensors(checkpoint, tensors, record | belonging)
            save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])
            saved = time.monotonic()
        yield progress
    save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])
    save_tensors(run.folder / "posterior.safetensors", trainer.best, belonging)


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
    seed: int | None,
) -> Certificate:
    """Issue the certificate of a trained run and leave it in the folder."""
    seed = run.settings.seed if seed is None else seed
    x, y = run.bound_set(data)
    provenance = {
        "data": data.name,
        "data_sha256": data.train_sha256,
        "split_sha256": run.record.data.split_sha256,
        "prior_sha256": run.record.prior_sha256,
        "posterior_sha256": file_sha256(run.folder / "posterior.safetensors"),
        "training_seed": run.settings.seed,
        "certificate_seed": seed,
        "versions": versions(),
    }
    shared: dict[str, Any] = {
        "delta": delta,
        "priors": max(1, len(run.settings.prior_scales)),
        "repeats": True,  # `prepare` has looked at all examples
    }
    if bound == "disintegrated":
        number = stream(seed, "drawn")
        issued, drawn = certify_drawn(network, x, y, networks=networks, seed=number, **shared)
        path = run.folder / "drawn.safetensors"
        save_tensors(path, drawn.weights, {"run": run.sha256})
        provenance["drawn_sha256"] = file_sha256(path)
    else:
        with seeded(seed, "certificate"):
            issued = certify(
                network, x, y, bound=bound, monte_carlo=monte_carlo, samples=samples, **shared
            )
    certificate = replace(issued, provenance=provenance)
    path = run.certificate_path(certificate.predictor)
    save_json(path, {"format": 2, **certificate.as_dict()})
    return certificate
