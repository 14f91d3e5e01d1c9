"""Train a run, or one for each prior scale that is tried, and certify it in its folder."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from pacbayes.bounds.ledger import below
from pacbayes.bounds.theorems import BEST_OF, THEOREMS, CertificateBound
from pacbayes.certificates.assumptions import Assumptions
from pacbayes.certificates.certificate import FORMAT, Certificate, read_certificate
from pacbayes.certificates.certify import certify
from pacbayes.certificates.explanation import remarked
from pacbayes.certificates.kept import certify_drawn, certify_fixed, certify_network, prior_error
from pacbayes.choices import MonteCarlo, Predictor
from pacbayes.data import Dataset, DataSource
from pacbayes.data.dataset import LEAST_EXAMPLES
from pacbayes.devices import CPU, device_named, device_of
from pacbayes.files import (
    exclusive,
    file_sha256,
    remove_parts,
    save_json,
    save_tensors,
    tensors_sha256,
)
from pacbayes.folders.folder import Run
from pacbayes.folders.leases import writing
from pacbayes.folders.preparation import prepare, prior_steps, withdraw
from pacbayes.folders.record import versions
from pacbayes.networks.modules import OwnModule
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import Weights, saved_posterior
from pacbayes.settings import Settings
from pacbayes.training.blueprint import Choice
from pacbayes.training.checkpoints import restore
from pacbayes.training.loop import Progress, run_to_end
from pacbayes.training.trainer import Trainer, why_torch

__all__ = [
    "FITTED",
    "Follow",
    "best_run",
    "certify_classes",
    "certify_run",
    "engine_note",
    "planned_runs",
    "refuse_other",
    "scale_text",
    "train_all",
    "train_run",
    "usual_bound",
]

_ONE_NETWORK = (Predictor.DRAWN, Predictor.FIXED)
FITTED = "features.json, fitted to the prior's part alone"


def engine_note(run: Run, data: Dataset, device: str | torch.device = CPU) -> str:
    """Return which engine makes the run's steps and, if it is PyTorch, why."""
    place, x = device_named(device), data.tensors("train")[0][:1]
    reason = why_torch(run.build_network().to(place), x.to(place), run.settings)
    return "native engine" if reason is None else f"torch engine ({reason})"


def train_run(run: Run, data: Dataset, *, device: str | torch.device = CPU) -> Iterator[Progress]:
    """Train from the last checkpoint to the end, saving along the way.

    Args:
        device: cpu, cuda, mps, or auto for the fastest; a checkpoint continues on any.
    """
    with writing(run.folder):
        yield from _training(run, data, device_named(device))


def _training(run: Run, data: Dataset, device: torch.device) -> Iterator[Progress]:
    x, y = (tensor.to(device) for tensor in run.bound_set(data))
    trainer = Trainer(run.start_network().to(device), x, y, run.settings)
    checkpoint, owner = run.folder / "checkpoint.safetensors", {"run": run.sha256}
    if checkpoint.exists():
        restore(trainer, checkpoint, *run.load_own(checkpoint.name))

    def save() -> None:
        tensors, record = trainer.state()
        save_tensors(checkpoint, tensors, record | owner)
        save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])

    yield from run_to_end(trainer, save)
    save_json(run.folder / "history.json", [asdict(e) for e in trainer.history])
    kept = saved_posterior(trainer.model) | trainer.best
    best = {name: kept[name].to(CPU) for name in saved_posterior(trainer.model)}
    save_tensors(run.folder / "posterior.safetensors", best, owner)


def usual_bound(run: Run, *, sampled: bool = False) -> CertificateBound:
    """Return the theorem that certifies a run if none is named.

    Args:
        sampled: the risk of the randomised classifier is asked for, by naming how it is sampled.
    """
    if run.settings.prior_fraction and not sampled:
        return BEST_OF
    return "small-kl" if run.record.data.source.group is None else "disintegrated"


def certify_run(
    run: Run,
    network: Network,
    data: Dataset,
    *,
    delta: float,
    bound: CertificateBound,
    samples: int | Literal["auto"] | None = "auto",
    monte_carlo: MonteCarlo | None = None,
    networks: int = 1,
    priors: int | None = None,
    loss: str = "error",
    replace_other: bool = False,
    **drawing: Any,
) -> Certificate:
    """Issue the certificate of a trained run and save it in the folder.

    Args:
        replace_other: replace a certificate of the same predictor by another theorem.
        monte_carlo: kl-chernoff by default, or stratified-bernstein where a batch shares its draws.
        drawing: seconds, executor and follow, as for `certify`.
        priors: how many priors were tried on these data; by default the run's prior scales.
        loss: error, or top-K for how often the label is not among the K best scores of one network.
    """
    if not replace_other and bound != BEST_OF:
        refuse_other(run.certificate_path(THEOREMS[bound].predictor), bound)
    more = (samples, monte_carlo, networks, priors, loss, drawing)
    issuer = _Issuer(run, network, data, bound, *more)
    issued, weights = issuer.issue(delta, *run.bound_set(data))
    place = run.certificate_path(issued.kind)
    if not replace_other:
        refuse_other(place, issued.bound_name, issued.noun)
    issued = _saved(run, issued, place, weights)
    return remarked(issued, data.y_train, data.groups, data.classes)


def refuse_other(path: Path, bound: str, noun: str | None = None) -> None:
    """Raise ValueError if there is a certificate by another theorem, or of another loss."""
    if not path.exists():
        return
    try:
        there = read_certificate(path)
    except ValueError:  # damaged, or of an earlier format: to be issued again
        return
    was, new = f"by {there.bound_name}", f"by {bound}"
    if noun is not None and there.noun != noun:
        was, new = f"of the {there.noun}", f"of the {noun}"
    elif there.bound_name.removesuffix("-mean") == bound.removesuffix("-mean"):  # of groups
        return
    raise ValueError(
        f"{path} is a certificate {was}, which one {new} would replace; add --replace "
        "(replace_other=True), or move that file"
    )


def certify_classes(
    run: Run,
    network: Network,
    data: Dataset,
    *,
    delta: float,
    bound: CertificateBound,
    samples: int | Literal["auto"] | None = "auto",
    replace_other: bool = False,
    **given: Any,
) -> list[Certificate]:
    """Issue a certificate for every class, of the error on its examples alone; save them all.

    For two classes these are the false-negative and false-positive rates. The examples of one class
    are a sample of that class. The classes have equal shares of δ, so that all certificates hold
    together with probability 1 − δ.

    Args:
        replace_other: replace certificates of the same predictor by another theorem.
        given: monte_carlo, networks, priors, loss, seconds, executor and follow, as for
            `certify_run`.
    """
    if bound == BEST_OF or THEOREMS[bound].predictor is Predictor.DRAWN:
        raise ValueError(
            f"--per-class needs one predictor for all classes, which {bound} would choose for each "
            "class; use --bound held-out, small-kl or another"
        )
    if data.groups is not None:
        raise ValueError(
            "--per-class is not offered for groups, whose examples may differ in class"
        )
    if not replace_other:
        for path in run.class_paths(THEOREMS[bound].predictor):
            refuse_other(path, bound)
    names, (x, y) = run.record.data.classes, run.bound_set(data)
    known = [name for name in ("seconds", "executor", "follow") if name in given]
    drawing: dict[str, Any] = {name: given.pop(name) for name in known}
    issuer = _Issuer(run, network, data, bound, samples, **given, drawing=drawing)
    share, codes, found = below(Fraction(delta) / len(names)), _codes(y, len(names)), []
    for i, name in enumerate(names):
        chosen = codes == i
        if (count := int(chosen.sum())) < LEAST_EXAMPLES:
            raise ValueError(
                f"class {name} has {count} examples in the bound set; --per-class needs at least "
                f"{LEAST_EXAMPLES} of every class"
            )
        found.append(issuer.issue(share, x[chosen], y[chosen])[0].of_class(name, delta))
    return [_saved(run, c, run.class_path(c.kind, i)) for i, c in enumerate(found)]


@dataclass(frozen=True)
class _Issuer:
    """How the certificates of a run are issued, on the bound set or on a part of it."""

    run: Run
    network: Network
    data: Dataset
    bound: CertificateBound
    samples: int | Literal["auto"] | None
    monte_carlo: MonteCarlo | None = None
    networks: int = 1
    priors: int | None = None
    loss: str = "error"
    drawing: Mapping[str, Any] = field(default_factory=dict)

    def issue(self, delta: float, x: Tensor, y: Tensor) -> tuple[Certificate, Weights | None]:
        """Return the certificate, and the weights of a network that was drawn for it."""
        place = device_of(self.network)
        x, y = x.to(place), y.to(place)
        given: dict[str, Any] = {
            "delta": delta,
            "priors": self.priors or max(1, len(self.run.settings.prior_scales)),
            "repeats": True,  # `prepare` has checked all examples
            "assumptions": _assumptions(self.run),
        }
        if (groups := self.run.bound_groups(self.data)) is not None:
            self._check_groups()
            given["groups"] = groups
        if self.loss != "error":
            self._check_one_network()
            given["loss"] = self.loss
        if self.bound.startswith("held-out"):
            return certify_fixed(self.network, x, y, **given), None
        given["guess"] = _guess(self.run, self.network, self.data, self.loss)
        if self.bound == BEST_OF and self.run.settings.prior_fraction:
            return certify_network(self.network, x, y, networks=self.networks, **given)
        if self.bound != BEST_OF and THEOREMS[self.bound].predictor is Predictor.DRAWN:
            given |= {"bound": self.bound, "networks": self.networks}
            issued, drawn = certify_drawn(self.network, x, y, **given)
            return issued, drawn.weights
        shared = self.network.body.freshness == "per-batch"
        usual: MonteCarlo = "stratified-bernstein" if shared else "kl-chernoff"
        given |= {"monte_carlo": self.monte_carlo or usual, "samples": self.samples}
        return certify(self.network, x, y, bound=self.bound, **given, **self.drawing), None

    def _check_one_network(self) -> None:
        """Refuse theorems about more than one network, whose scores have no order."""
        best = self.bound == BEST_OF
        learned = bool(self.run.settings.prior_fraction)
        if not (learned if best else THEOREMS[self.bound].predictor in _ONE_NETWORK):
            raise ValueError(
                f"--loss {self.loss} counts errors of one network, which --bound {self.bound} does "
                "not certify; use held-out, disintegrated or disintegrated-fixed"
            )

    def _check_groups(self) -> None:
        """Refuse theorems whose risk would have to be sampled for groups."""
        learned = bool(self.run.settings.prior_fraction)
        if self.bound == BEST_OF and learned:
            return
        if self.bound == BEST_OF or THEOREMS[self.bound].predictor not in _ONE_NETWORK:
            offered = "best-of, held-out" if learned else "held-out"
            raise ValueError(
                f"--bound {self.bound} is not offered for groups; use {offered}, disintegrated or "
                "disintegrated-fixed, which certify one network"
            )


def _codes(y: Tensor, classes: int) -> Tensor:
    """Return class indices, also where two classes are −1 and +1."""
    return (y > 0).long() if classes == 2 else y


def _guess(run: Run, network: Network, data: Dataset, loss: str) -> float | None:
    """Return the prior's error on the part of the data that it learned from, if it learned."""
    s = run.settings
    if not s.prior_fraction:
        return None
    own = data.split(s.prior_fraction, s.seed)[0]
    return prior_error(network, *data.tensors("train"), torch.from_numpy(own), loss=loss)


def _assumptions(run: Run) -> Assumptions:
    s = run.settings
    split_seed = s.seed if s.prior_fraction else None
    source = run.record.data.source
    return Assumptions(
        source.name,
        repeats=s.repeats,
        split_seed=split_seed,
        deduplicated=source.deduplicate or None,
        group=source.group,
        preprocessing=None if run.encoding.plain else FITTED,
        code=_code(run),
    )


def _code(run: Run) -> str | None:
    """Return the code of the user's own that builds the network, by its hash."""
    network = run.record.network
    if network is None or not isinstance(network.architecture, OwnModule):
        return None
    return f"{network.architecture.title}, SHA-256 {network.architecture.sha256}"


def _saved(
    run: Run, issued: Certificate, place: Path, weights: Weights | None = None
) -> Certificate:
    """Save a certificate with its provenance, and the network that it covers if it was drawn."""
    remove_parts(run.folder)
    provenance = {
        "data_sha256": run.record.data.train_sha256,
        "split_sha256": run.record.data.split_sha256,
        "features_sha256": run.record.data.features_sha256,
        "prior_sha256": run.record.prior_sha256,
        "posterior_sha256": file_sha256(run.folder / "posterior.safetensors"),
        "versions": versions(),
    }
    if weights is None or issued.kind is not Predictor.DRAWN:
        return _written(replace(issued, provenance=provenance), place)
    owner = {"run": run.sha256}
    provenance["drawn_sha256"] = sha256 = tensors_sha256(weights, owner)
    with exclusive(run.folder):
        # The new network waits beside the old one: the certificate decides which of them counts.
        save_tensors(run.new_drawn_path(sha256), weights, owner)
        certificate = _written(replace(issued, provenance=provenance), place)
        run.new_drawn_path(sha256).replace(run.drawn_path)
        for stale in run.folder.glob(run.new_drawn_path("*").name):
            stale.unlink(missing_ok=True)
    return certificate


def _written(certificate: Certificate, path: Path) -> Certificate:
    save_json(path, {"format": FORMAT, **certificate.as_dict()})
    return certificate


Subject = TypeVar("Subject")
Follow = Callable[[Iterator[Progress], Subject], None]


def scale_text(scale: float) -> str:
    """Return a prior scale in the one spelling that folder names and commands have.

    >>> scale_text(0.0300001234), scale_text(1.0)
    ('0.0300001234', '1')
    """
    return repr(float(scale)).removesuffix(".0")


def planned_runs(out: Path, settings: Settings) -> list[tuple[Path, Settings]]:
    """Return folder and settings of every run: `out` itself, or a folder in it for each scale."""
    if not settings.prior_scales:
        return [(out, settings)]
    return [
        (out / f"scale-{scale_text(scale)}", settings.model_copy(update={"prior_scale": scale}))
        for scale in settings.prior_scales
    ]


def _follow(steps: Iterator[Progress], subject: object) -> None:
    deque(steps, maxlen=0)


def train_all(
    out: Path,
    settings: Settings,
    source: DataSource,
    data: Dataset,
    network: Choice | None = None,
    *,
    follow_prior: Follow[Settings] = _follow,
    follow: Follow[Run] = _follow,
    device: str | torch.device = CPU,
) -> list[Run]:
    """Prepare and train every planned run; unfinished ones are resumed.

    All priors are fixed before any posterior uses the bound set. A run that diverges before its
    first checkpoint is removed.

    Args:
        network: what `chosen` returns for a network that is not dense.
        follow_prior, follow: advance the steps of a prior's learning and of a run's training, for
            example with a progress bar.
        device: cpu, cuda, mps, or auto for the fastest.
    """
    device, planned, begun = device_named(device), planned_runs(out, settings), []
    with ExitStack() as held:
        for folder, own in planned:
            held.enter_context(writing(folder))
            steps = prior_steps(folder, own, source, data, network, device=device)
            follow_prior(steps, own)
            begun.append(prepare(folder, own, source, data, network, device=device))
        for run in begun:
            try:
                follow(train_run(run, data, device=device), run)
            except ArithmeticError:
                withdraw(run)
                raise
    return begun


def best_run(runs: Sequence[Run]) -> Run:
    """Return the run with the lowest bound."""
    return min(runs, key=lambda run: run.best.bound)
