"""The folder of a kernel network: create, train, certify and predict.

run.json                formulas of features and kernel, settings, data, versions
history.json            risk, KL and bound after every epoch
posterior.safetensors   landmarks, directions, means and scales
certificate.json        what `certify` issued, or certificate-vote.json
test.json               errors on the test part, if there is one

Training takes seconds, so it has no checkpoint: a killed one begins again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.bounds.theorems import BEST_OF, THEOREMS, CertificateBound
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import FORMAT, Certificate, read_certificate
from pacbayes.certificates.explanation import remarked
from pacbayes.certificates.kernel import certify_kernel
from pacbayes.choices import Predictor
from pacbayes.data import DataError, Dataset, DataSource
from pacbayes.data.sample import check_sample
from pacbayes.features.kernels import Kernel
from pacbayes.files import (
    DamagedFileError,
    file_sha256,
    load_json,
    remove_parts,
    save_json,
    save_tensors,
)
from pacbayes.folders.folder import TrainedFolder, features_sha256, save_features
from pacbayes.folders.leases import writing
from pacbayes.folders.prediction import (
    Prediction,
    TestErrors,
    certified_predictor,
    labelled_rows,
)
from pacbayes.folders.record import DataRecord, KernelRecord, read_manifest, versions
from pacbayes.folders.run import refuse_other
from pacbayes.networks.families.process import Directions, Process
from pacbayes.networks.kernel import KernelNetwork, KernelPrior
from pacbayes.randomness import keyed_generator, stream
from pacbayes.training.kernel import HeadProgress, KernelSettings, train_kernel

__all__ = [
    "KernelRun",
    "TrainedKernel",
    "certify_kernel_run",
    "create_kernel",
    "errors_on",
    "kernel_test_errors",
    "open_kernel",
    "predict_kernel",
    "train_kernel_run",
]

_BLOCK = 2_000  # examples at a time
_TRIED, _CHOSEN_ON = 256, ("binary-mnist", "mnist", "cifar-10")
_OFFERED = (Predictor.RANDOMISED, Predictor.VOTE)


@dataclass(frozen=True)
class KernelRun(TrainedFolder):
    """An open folder of a kernel network."""

    record: KernelRecord

    @property
    def history(self) -> list[HeadProgress]:
        """Every epoch of training."""
        path = self.folder / "history.json"
        try:
            return [HeadProgress(**epoch) for epoch in load_json(path)]
        except TypeError as error:
            raise DamagedFileError(f"{path} is damaged: {error}") from error

    @property
    def kind(self) -> str:
        """What the folder holds."""
        return self.record.kind

    def load(self, trusted: Sequence[str] = ()) -> TrainedKernel:
        """Return the trained network, which predicts; `trusted` is for models of scikit-learn."""
        predictor = certified_predictor(self)
        path = self.certificate_path(predictor)
        certificate = read_certificate(path) if path.exists() else None
        classes = np.array(self.record.data.classes)
        return TrainedKernel(self, self.load_network(), predictor, certificate, classes)

    def predict(self, data: Any, label: str | None = None, **given: Any) -> Prediction:
        """Predict labels, as `predict_kernel`; by default with the lowest certificate."""
        given.setdefault("method", certified_predictor(self))
        return predict_kernel(self, data, label=label, **given)

    def certify(self, delta: float = 0.05, **given: Any) -> Certificate:
        """Issue a certificate and save it, as `certify_kernel_run`."""
        return certify_kernel_run(self, self.load_data(), delta=delta, **given)

    def load_network(self) -> KernelNetwork:
        """Load the trained network."""
        if not self.trained:
            raise ValueError(
                f"{self.folder} is not fully trained; run the same train command to finish it"
            )
        tensors = {k: t.numpy() for k, t in self.load_own("posterior.safetensors")[0].items()}
        if set(tensors) != set(_KINDS) or any(tensors[k].dtype != v for k, v in _KINDS.items()):
            path = self.folder / "posterior.safetensors"
            raise DamagedFileError(f"{path} is not a posterior of a kernel network")
        prior = self.record.prior
        basis = Directions(Kernel.parse(prior.kernel), tensors["landmarks"], tensors["matrix"])
        return KernelNetwork(prior, Process(basis, tensors["mean"], tensors["log_scale"]))


@dataclass(frozen=True)
class TrainedKernel:
    """A trained kernel network that takes rows as the run's file has them.

    Attributes:
        run: its folder.
        network: prior and Q.
        predictor_: the predictor with the lowest certificate; `randomised` without any.
        certificate_: what covers it; None if nothing does.
        classes_: names of the classes.
    """

    run: KernelRun
    network: KernelNetwork
    predictor_: Predictor
    certificate_: Certificate | None
    classes_: NDArray[Any]

    def predict(self, X: Any, method: Predictor | str | None = None) -> NDArray[Any]:
        """Return labels, as texts, for a file or for rows with the columns of the run's file."""
        found = predict_kernel(self.run, X, method or self.predictor_, network=self.network)
        return np.array(found.labels)


_KINDS = {"landmarks": "float32", "matrix": "float64", "mean": "float64", "log_scale": "float64"}


def open_kernel(folder: Path) -> KernelRun:
    """Open the folder of a kernel network."""
    record = read_manifest(folder)
    if not isinstance(record, KernelRecord):
        raise ValueError(f"{folder} holds no kernel network")
    if record.prior_sha256 != record.prior.sha256:
        raise ValueError(
            f"{folder} has features or a kernel of another version of pacbayes; train it again"
        )
    return KernelRun(folder, record)


def create_kernel(
    folder: Path,
    prior: KernelPrior,
    source: DataSource,
    data: Dataset,
    settings: KernelSettings,
    *,
    repeats: bool = False,
) -> KernelRun:
    """Record formulas, settings and data in a folder; or open the same run if it is there."""
    if data.groups is not None:
        raise DataError("a kernel network does not take groups yet; leave out --group")
    prior.of(torch.from_numpy(data.x_train[:1]))  # refuses examples of another shape
    with writing(folder):
        remove_parts(folder)
        remarks = check_sample(data.as_they_came, data.y_train, repeats=repeats)
        label = None if data.rows is None or data.rows.label is None else data.rows.label.name
        record = KernelRecord(
            prior=prior,
            settings=settings,
            data=DataRecord(
                source=source.seen_from(folder),
                train_sha256=data.train_sha256,
                n=len(data.x_train),
                features=data.x_train.shape[1],
                classes=data.classes,
                features_sha256=features_sha256(data.encoding),
                label=label,
                names=data.names,
                remarks=tuple(remarks),
            ),
            repeats=repeats,
            prior_sha256=prior.sha256,
            versions=versions(),
        )
        if (folder / "run.json").exists():
            return _reopened(folder, record)
        folder.mkdir(parents=True, exist_ok=True)
        if data.encoding is not None:
            save_features(folder, data.encoding)
        save_json(folder / "run.json", record.model_dump(mode="json"))
        return KernelRun(folder, record)


def _reopened(folder: Path, want: KernelRecord) -> KernelRun:
    have = open_kernel(folder)
    pairs = [
        (name, *(getattr(record, name) for record in (have.record, want)))
        for name in ("prior", "settings", "data", "repeats")
    ]
    differing = [f"{name} is {a}, requested {b}" for name, a, b in pairs if a != b]
    if differing:
        raise ValueError(
            f"{folder} holds another run ({', '.join(differing)}); choose another --out, or remove "
            "that run first"
        )
    return have


def train_kernel_run(
    run: KernelRun, data: Dataset, *, follow: Callable[[HeadProgress], None] | None = None
) -> KernelNetwork:
    """Train in a folder and save the posterior; load it if it is there."""
    if run.trained:
        return run.load_network()
    history: list[HeadProgress] = []

    def kept(progress: HeadProgress) -> None:
        history.append(progress)
        if follow is not None:
            follow(progress)

    with writing(run.folder):
        x, y = data.tensors("train")
        s, prior, classes = run.record.settings, run.record.prior, len(data.classes)
        network = train_kernel(prior, x, y, classes, s, cache=True, follow=kept)
        q, basis = network.process, network.process.directions
        arrays = {"landmarks": basis.landmarks, "matrix": basis.matrix}
        arrays |= {"mean": q.mean, "log_scale": q.log_scale}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        save_json(run.folder / "history.json", [asdict(progress) for progress in history])
        save_tensors(run.folder / "posterior.safetensors", tensors, {"run": run.sha256})
    return network


def certify_kernel_run(
    run: KernelRun,
    data: Dataset,
    *,
    delta: float = 0.05,
    bound: CertificateBound = "small-kl",
    priors: int | None = None,
    replace_other: bool = False,
) -> Certificate:
    """Issue the certificate of a folder and save it there.

    Args:
        priors: how many choices of features and kernel were tried on these data; by default 256
            for the library's own choice on MNIST and CIFAR-10, where it was made, and 1 elsewhere.
        replace_other: replace a certificate of the same predictor by another theorem.
    """
    if bound != BEST_OF and THEOREMS[bound].predictor not in _OFFERED:
        raise ValueError(
            f"--bound {bound} needs one network of known weights, which a kernel network is not; "
            "use small-kl, or tandem for the vote"
        )
    source = run.record.data.source
    if priors is None:
        chosen_here = run.record.prior == KernelPrior.usual(source.name, run.record.prior.shape)
        priors = _TRIED if chosen_here and source.name in _CHOSEN_ON else 1
    network, (x, y) = run.load_network(), data.tensors("train")
    if not replace_other and bound != BEST_OF:
        refuse_other(run.certificate_path(THEOREMS[bound].predictor), bound)
    issued = certify_kernel(
        network,
        x,
        y,
        delta=delta,
        bound=bound,
        priors=priors,
        sample=(torch.from_numpy(data.as_they_came), y),
        assumptions=Assumptions(
            source.name, repeats=run.record.repeats, deduplicated=source.deduplicate or None
        ),
        cache=True,
    )
    place = run.certificate_path(issued.kind)
    if not replace_other:
        refuse_other(place, issued.bound_name)
    remove_parts(run.folder)
    provenance = {
        "data_sha256": run.record.data.train_sha256,
        "features_sha256": run.record.data.features_sha256,
        "prior_sha256": run.record.prior_sha256,
        "posterior_sha256": file_sha256(run.folder / "posterior.safetensors"),
        "versions": versions(),
    }
    issued = replace(issued, provenance=provenance)
    save_json(place, {"format": FORMAT, **issued.as_dict()})
    return remarked(issued, data.y_train, None, data.classes)


def kernel_test_errors(run: KernelRun, network: KernelNetwork, data: Dataset) -> TestErrors | None:
    """Measure errors on the test part, and save them in the folder; None if there is none."""
    if len(data.x_test) == 0:
        return None
    errors = errors_on(network, data)
    save_json(run.folder / "test.json", asdict(errors))
    return errors


def errors_on(network: KernelNetwork, data: Dataset) -> TestErrors:
    """Return the errors on the test part: the exact randomised one, and that of the whole vote."""
    x, y = data.tensors("test")
    losses, wrong = torch.zeros(len(x)).double(), torch.zeros(len(x)).double()
    for part, at in network.blocks(x):
        losses[part] = network.task.loss(network.output(at)[0], y[part])
        wrong[part] = network.task.wrong(network.scores(at), y[part])
    return TestErrors(losses.mean().item(), wrong.mean().item(), 0, len(x))


def predict_kernel(
    run: KernelRun,
    data: Any,
    method: Predictor | str,
    *,
    seed: int = 0,
    label: str | None = None,
    network: KernelNetwork | None = None,
) -> Prediction:
    """Predict labels for a file, rows in memory, or the test part of a named data set.

    The vote is that of all of Q: the sign of the mean score, or the largest. The randomised
    classifier's draws belong to the seed and the example.

    Args:
        network: of the run, if it was loaded before.
    """
    method = Predictor(method)
    if method not in _OFFERED:
        raise ValueError(
            f"a kernel network has no {method.value} predictor; use --method randomised or vote"
        )
    network = network or run.load_network()
    task = network.task
    features, given = labelled_rows(run, data, label)
    labels, votes, classes = list[str](), list[float](), run.record.data.classes
    for x in torch.from_numpy(features).split(_BLOCK):
        at = network.coordinates(x)
        output = network.output(at)[0]
        if method is Predictor.VOTE:
            index = task.decide(network.scores(at))
            votes += task.confidence(output).tolist()
        else:
            index = _drawn(task.shares(output), x, seed)
        labels += [classes[i] for i in index.tolist()]
    error = None
    if given is not None:
        error = sum(a != b for a, b in zip(labels, given, strict=True)) / len(given)
    predictor = method.sentence
    if method is Predictor.VOTE:
        predictor = "majority vote of all of Q (not covered by certificate.json)"
    return Prediction(predictor, labels, votes or None, error)


def _drawn(shares: Tensor, x: Tensor, seed: int) -> Tensor:
    """Draw a class for every example by its probabilities, from a stream of its own."""
    key = stream(seed, "prediction").to_bytes(8, "little")
    digests = (hashlib.sha256(key + row.numpy().tobytes()).digest() for row in x.contiguous())
    uniform = np.array([keyed_generator(digest).random() for digest in digests])
    below = shares.cumsum(-1)[:, :-1] <= torch.from_numpy(uniform)[:, None]
    return below.sum(-1)
