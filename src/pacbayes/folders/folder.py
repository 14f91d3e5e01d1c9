"""A run on disk: settings and prior first, then checkpoints, then a posterior and certificates.

run.json                settings, data, hash of the prior, versions
network.py              the code that builds the network, if it is the user's own
features.json           how the columns of a table became features
split.safetensors       indices of the bound set, if the prior learned from the other examples
learning.safetensors    checkpoint of the prior's learning, until it is done
prior.safetensors       P, and what a network has outside Q, written before the bound set is used
checkpoint.safetensors  checkpoint of training
history.json            every evaluation
posterior.safetensors   Q, from the best evaluated epoch by bound
certificate.json        what `certify` issued; -vote, -drawn, -fixed or -class-0 for others
drawn.safetensors       the network that was drawn from Q, certified and kept
drawn-….safetensors     a newer one, by its hash, that waits for its certificate
test.json               errors on the test part, if there is one"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from torch import Tensor

from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.choices import Predictor
from pacbayes.data import DataError, Dataset, DataSource, Tables
from pacbayes.data.encoding import Encoding, NumberCode
from pacbayes.files import (
    DamagedFileError,
    damaged,
    file_sha256,
    load_tensors,
    write_atomically,
)
from pacbayes.folders.record import DataRecord, KernelRecord, RunRecord, read_manifest, versions
from pacbayes.networks.modules import OwnModule
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians, saved_posterior
from pacbayes.networks.predictors import prior_weights
from pacbayes.settings import Settings
from pacbayes.training.blueprint import Blueprint, Named, allowed_copy
from pacbayes.training.checkpoints import read_history, recorded
from pacbayes.training.loop import Evaluation

if TYPE_CHECKING:
    from pacbayes.folders.prediction import Prediction

__all__ = [
    "FEATURES",
    "Run",
    "TrainedFolder",
    "encoding_of",
    "featured",
    "features_sha256",
    "open_run",
    "save_features",
]


@dataclass(frozen=True)
class TrainedFolder:
    """What the folders of networks and of kernel networks have in common."""

    folder: Path
    record: RunRecord | KernelRecord

    @property
    def trained(self) -> bool:
        """Whether the training has ended."""
        return (self.folder / "posterior.safetensors").exists()

    @property
    def changed_versions(self) -> list[str]:
        """What differs from when the run was made, so that its last bits may differ too."""
        now, then = {"device": "cpu"} | versions(), self.record.versions
        return [f"{k} {v}, now {now.get(k)}" for k, v in then.items() if now.get(k) != v]

    @property
    def sha256(self) -> str:
        """Hash of run.json, which checkpoints and posteriors carry so that they stay with it."""
        return file_sha256(self.folder / "run.json")

    def certificate_path(self, predictor: Predictor) -> Path:
        """Return where the certificate of a predictor lies."""
        return self.folder / predictor.file

    def load_data(self, file: Path | None = None, test: Path | None = None) -> Dataset:
        """Load the run's data and check that they are bit for bit those it was trained on.

        Args:
            file, test: where the data are now, if they are your own and have moved.
        """
        source = self.record.data.source.located(self.folder)
        data = source.moved(file, test).read()
        if data.train_sha256 != self.record.data.train_sha256:
            raise DataError(
                f"{data.name} has changed: it is not the data that {self.folder} was trained on"
            )
        if isinstance(data, Dataset):
            return data
        old = self.record.data.features_sha256 is None  # earlier versions read numbers alone
        return data.plain() if old else data.encoded(self.encoding)

    @property
    def encoding(self) -> Encoding:
        """How the columns of a file become the features of the network."""
        return encoding_of(self.folder, self.record.data)

    def load_own(self, name: str) -> tuple[dict[str, Tensor], Any]:
        """Load tensors and record of one of the run's files; refuse those of another run."""
        path = self.folder / name
        tensors, record = load_tensors(path)
        if not isinstance(record, dict) or record.get("run") != self.sha256:
            raise DamagedFileError(f"{path} belongs to another run")
        return tensors, record


@dataclass(frozen=True)
class Run(TrainedFolder):
    """An open run folder of a network."""

    record: RunRecord

    @classmethod
    def create(
        cls,
        folder: str | Path,
        network: Named,
        data: str | Path | DataSource,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> Run:
        """Create a run and its prior, learned if it learns; or open the same run if it is there.

        `train_run` and `certify_run` go on from here, with `run.load_data()`.

        Args:
            network: None for dense layers; "conv" or `Convolutions`; "my_network.py:build" or the
                function itself, at the top of a file, which thereby may run.
            data: name of a data set, path of your own file, or a source with more choices.
            settings: all settings, or changes of the defaults for these data and this network.
        """
        from pacbayes.folders.preparation import (
            create,  # it prepares runs, which imports this module
        )

        return create(folder, network, data, settings)

    @property
    def kind(self) -> str:
        """What the folder holds."""
        return self.record.kind

    def load(self, trusted: Sequence[str] = ()) -> Any:
        """Return a predictor: the `PACBayesClassifier` that was saved, or a `TrainedNetwork`.

        Args:
            trusted: for models of scikit-learn; a network needs none.
        """
        if (self.folder / "classifier.json").exists():
            from pacbayes.folders.estimators import load_estimator

            return load_estimator(self.folder)
        from pacbayes.folders.prediction import TrainedNetwork

        return TrainedNetwork.of(self)

    def predict(self, data: Any, label: str | None = None, **given: Any) -> Prediction:
        """Predict labels for a file, rows in memory, or the test part of a named data set.

        Args:
            label: name of the label column, if there is one.
            given: method, samples and seed, as for `folders.predict`; by default the predictor
                with the lowest certificate.
        """
        from pacbayes.folders.prediction import certified_predictor, predict

        method = given.pop("method", None) or certified_predictor(self)
        return predict(self, data, method, label=label, **given)

    def certify(self, delta: float = 0.05, **given: Any) -> Certificate:
        """Issue a certificate and save it in the folder.

        Args:
            given: bound, samples and others, as for `folders.certify_run`. By default two theorems
                share δ where the prior learned, and the better bound counts.
        """
        from pacbayes.folders.run import certify_run, usual_bound

        bound = given.pop("bound", None) or usual_bound(self)
        return certify_run(
            self, self.load_network(), self.load_data(), delta=delta, bound=bound, **given
        )

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.record.settings

    def class_path(self, predictor: Predictor, index: int) -> Path:
        """Return where the certificate of a predictor on one class lies."""
        path = self.certificate_path(predictor)
        return path.with_name(f"{path.stem}-class-{index}.json")

    def class_paths(self, predictor: Predictor) -> list[Path]:
        """Return the certificates of a predictor on single classes, in the order of the classes."""
        places = range(len(self.record.data.classes))
        return [p for i in places if (p := self.class_path(predictor, i)).exists()]

    @property
    def history(self) -> list[Evaluation]:
        """Evaluations up to the checkpoint, from which training continues."""
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            return []
        _, record = self.load_own(path.name)
        return recorded(path, record).history

    @property
    def best(self) -> Evaluation:
        """The evaluation that the posterior comes from."""
        return min(read_history(self.folder / "history.json"), key=lambda e: e.guide)

    def load_drawn(self) -> dict[str, Tensor]:
        """Load the weights of the network that was drawn, certified and kept."""
        claim = self.certificate_path(Predictor.DRAWN)
        certified = read_certificate(claim).provenance if claim.exists() else {}
        sha256 = str(certified.get("drawn_sha256"))
        path = self.new_drawn_path(sha256)  # a kill may have left it there
        path = path if path.exists() else self.drawn_path
        if not (path.exists() and certified):
            raise ValueError(
                f"{self.folder} has no drawn network; make one with "
                f"pacbayes certify {self.folder} --bound disintegrated"
            )
        if file_sha256(path) != sha256:
            raise DamagedFileError(f"{path} is not the network that {claim.name} covers")
        drawn = self.load_own(path.name)[0]
        self._check_tensors("drawn", drawn, prior_weights(self.build_network()))
        return drawn

    @property
    def drawn_path(self) -> Path:
        """Where the weights of a drawn network lie."""
        return self.folder / "drawn.safetensors"

    def new_drawn_path(self, sha256: str) -> Path:
        """Return where the weights of a newly drawn network lie until its certificate is there."""
        return self.folder / f"drawn-{sha256[:16]}.safetensors"

    def load_prior(self) -> dict[str, Tensor]:
        """Load P as it was written before the bound set was used."""
        path = self.folder / "prior.safetensors"
        if not path.exists():
            raise DamagedFileError(f"{path}, the run's prior, is missing")
        if file_sha256(path) != self.record.prior_sha256:
            raise DamagedFileError(f"{path} is damaged: it is not the run's prior")
        return load_tensors(path)[0]

    def bound_set(self, data: Dataset) -> tuple[Tensor, Tensor]:
        """Return the examples that the certificate is on: all, or those the prior did not see."""
        x, y = data.tensors("train")
        index = self._bound_index()
        return (x, y) if index is None else (x[index].contiguous(), y[index].contiguous())

    def bound_groups(self, data: Dataset) -> Tensor | None:
        """Return the group of each example of the bound set, if examples belong together."""
        if data.groups is None:
            return None
        groups, index = torch.from_numpy(data.groups), self._bound_index()
        return groups if index is None else groups[index]

    def _bound_index(self) -> Tensor | None:
        if self.record.data.split_sha256 is None:
            return None
        path = self.folder / "split.safetensors"
        if not path.exists() or file_sha256(path) != self.record.data.split_sha256:
            raise DamagedFileError(f"{path} is missing or is not the run's split")
        index = load_tensors(path)[0]["bound"]
        if index.dtype != torch.int64:
            raise DamagedFileError(f"{path} must hold int64 indices, got {index.dtype}")
        return index

    @property
    def blueprint(self) -> Blueprint:
        """What the run's network is built from; code of its own must be allowed to run."""
        network, code = self.record.network, None
        if network is not None and isinstance(network.architecture, OwnModule):
            code = allowed_copy(self.folder, network.architecture.sha256)
        sizes = self.settings, self.record.data.features, len(self.record.data.classes)
        if network is None:
            return Blueprint(*sizes, shape=self.record.data.shape or ())
        return Blueprint(*sizes, network.architecture, network.shape, code, network.groups)

    def build_network(self) -> Network:
        """Build the network of the run's architecture, untrained."""
        return self.blueprint.build()

    def start_network(self) -> Network:
        """Build the network before training: Q = P."""
        network, prior = self.build_network(), self.load_prior()
        self._check_tensors("prior", prior, network.prior_state())
        means = {f"{name}.mean": prior[f"{name}.prior_mean"] for name in gaussians(network)}
        network.load_state_dict(network.state_dict() | prior | means)
        return network

    def load_network(self) -> Network:
        """Load the trained network: P and Q as saved."""
        if not self.trained:
            raise ValueError(
                f"{self.folder} is not fully trained; run the same train command to resume it"
            )
        network = self.build_network()
        posterior, prior = self.load_own("posterior.safetensors")[0], self.load_prior()
        self._check_tensors("posterior", posterior, saved_posterior(network))
        self._check_tensors("prior", prior, network.prior_state())
        network.load_state_dict(network.state_dict() | posterior | prior)
        return network

    def _check_tensors(
        self, name: str, found: dict[str, Tensor], expected: Mapping[str, Tensor]
    ) -> None:
        """Raise DamagedFileError unless a file has the network's tensors, in their shapes."""
        kinds = ({k: (v.shape, v.dtype) for k, v in ts.items()} for ts in (found, expected))
        if next(kinds) != next(kinds):
            path = self.folder / f"{name}.safetensors"
            raise DamagedFileError(f"{path} is not a {name} of the run's network")


FEATURES = "features.json"


def featured(data: Dataset | Tables, settings: Settings) -> Dataset:
    """Compute the features of a table.

    Numbers are standardised and categories encoded by constants of the prior's rows. Without a part
    for the prior, columns stay as they are, and categories and missing values are refused.
    """
    if isinstance(data, Dataset):
        return data
    if not settings.prior_fraction:
        return data.plain()
    own, _ = data.split(settings.prior_fraction, settings.seed)
    return data.fitted(own)


def features_sha256(encoding: Encoding | None) -> str | None:
    """Return the hash of the file that `save_features` would write."""
    return None if encoding is None else hashlib.sha256(_content(encoding)).hexdigest()


def save_features(folder: Path, encoding: Encoding) -> None:
    """Write an encoding as plain JSON."""
    write_atomically(folder / FEATURES, _content(encoding))


def _content(encoding: Encoding) -> bytes:
    return (encoding.model_dump_json(indent=2) + "\n").encode()


def encoding_of(folder: Path, record: DataRecord) -> Encoding:
    """Return the encoding of a run; those of arrays and of earlier versions change nothing."""
    if record.features_sha256 is None:
        names = record.names or map(str, range(record.features))
        return Encoding(columns=tuple(NumberCode(name=name) for name in names))
    path = folder / FEATURES
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != record.features_sha256:
        raise DamagedFileError(f"{path} is missing or is not the run's")
    try:
        return Encoding.model_validate_json(content)
    except ValidationError as error:
        raise damaged(path, error) from error


def open_run(folder: Path) -> Run:
    """Open an existing run of a network."""
    record = read_manifest(folder)
    if not isinstance(record, RunRecord):
        kind = "a kernel network" if isinstance(record, KernelRecord) else "a classifier"
        instead = "open_kernel" if isinstance(record, KernelRecord) else "pacbayes.load"
        raise ValueError(f"{folder} holds {kind}, not a network; use {instead}")
    return Run(folder, record)
