"""Data-dependent priors, learned from a part of the data that the bound never sees."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus
from torch.nn.modules.dropout import _DropoutNd

from pacbayes.choices import Augmentation, Precision
from pacbayes.data.augmentation import crops_and_flips, image_side, moved_images
from pacbayes.data.foreign import ask, give
from pacbayes.data.splitting import split
from pacbayes.data.tasks import Task, check_examples, task_of
from pacbayes.devices import CPU, check_together
from pacbayes.files import load_tensors, save_tensors
from pacbayes.networks.architecture import build_network
from pacbayes.networks.families.diagonal import GaussianLinear
from pacbayes.networks.network import Network
from pacbayes.networks.posterior import gaussians
from pacbayes.networks.stochastic import fold_batch_norm
from pacbayes.randomness import redirected, seeded, stream
from pacbayes.settings import Settings
from pacbayes.training.checkpoints import restore
from pacbayes.training.loop import Loop, run_to_end
from pacbayes.training.trainer import Trainer

__all__ = [
    "Augment",
    "PlainTraining",
    "Teacher",
    "as_prior",
    "augmentation",
    "augmented",
    "learn_prior",
    "same_scores",
    "settled",
    "split",
]

_LOG_LOSS = 0.7  # fraction of the run on −ln P(label), which learns faster than the bounded loss


class Teacher(Trainer):
    """A run on the prior's own part of the data, without a KL, at the prior's scale.

    It trains the stochastic network itself, from weights of variance 2/inputs (He et al. 2015). It
    begins with the log loss, which learns faster, and ends with the linear loss, by which a
    posterior near this prior will be judged.

    Args:
        x, y: the prior's own part of the data, which alone may be augmented.
        settings: those of the run that the prior is for.
    """

    def __init__(self, x: Tensor, y: Tensor, settings: Settings, classes: int = 2) -> None:
        if settings.prior_augmentation == "images":
            image_side(x.shape[1])
        seed = stream(settings.seed, "prior training") >> 1
        alone = {
            "protocol": "fast",
            "objective": "fix-lambda",
            "lam": 1e15,
            "learned_scale": False,
            "kl_warmup": 0.0,
            "epochs": settings.prior_epochs,
            "evaluate_every": settings.prior_epochs,
            "learning_rate": settings.prior_rate,
            "seed": seed,
            # The native engine does not know the log loss of drawn weights.
            "engine": "torch" if settings.estimator == "reinforce" else settings.engine,
        }
        network = build_network(settings.model_copy(update=alone), x.shape[1], classes)
        _spread_out(network, seed)
        network.to(x.device)
        super().__init__(network, x, y, settings.model_copy(update=alone))

    def begin_epoch(self) -> None:
        """Augment the examples and choose the loss of the epoch."""
        s = self.settings
        augment = moved_images if s.prior_augmentation == "images" else None
        self.shown = augmented(self.x, augment, self.seed, self.epoch, s.epochs)
        self.log_loss = self.epoch / s.epochs < _LOG_LOSS


def as_prior(teacher: Teacher, settings: Settings) -> Network:
    """Build a run's network with prior and posterior at the teacher's current means."""
    classes, inputs = teacher.network.classes, teacher.x.shape[1]
    network = build_network(settings, inputs, classes)
    learned = gaussians(teacher.network)
    with torch.no_grad():
        for name, g in gaussians(network).items():
            g.mean.copy_(learned[name].mean)
            g.prior_mean.copy_(learned[name].mean)
    return network


def _spread_out(network: Network, seed: int) -> None:
    """Draw weights of variance 2/inputs and set biases to zero, to start learning from."""
    generator = torch.Generator().manual_seed(seed)
    layers = [layer for layer in network.modules() if isinstance(layer, GaussianLinear)]
    with torch.no_grad():
        for layer in layers:
            deviation = math.sqrt(2 / layer.weight.mean.shape[1])
            layer.weight.mean.normal_(0, deviation, generator=generator)
            layer.bias.mean.zero_()


Augment = Callable[[Tensor, torch.Generator], Tensor]
_AS_THEY_ARE = 0.03  # fraction at the end without augmentation
_BLOCK = 500
_SAME = 1e-3  # relative change of scores by folding, in float32


def augmented(x: Tensor, augment: Augment | None, seed: int, epoch: int, epochs: int) -> Tensor:
    """Return an epoch's examples: augmented, and as they are at the end of a run."""
    if augment is None or epoch / epochs >= 1 - _AS_THEY_ARE:
        return x
    generator = torch.Generator().manual_seed((seed + epoch) % 2**63)
    own: Tensor = give(lambda copied: augment(copied, generator), x)
    return own


def augmentation(name: Augmentation, shape: tuple[int, ...]) -> Augment | None:
    """Return what augments rows of features, which are examples of a shape.

    Raises:
        ValueError: the examples are not images that it is for.
    """
    if name == "none":
        return None
    if name == "images":
        image_side(math.prod(shape))
        return moved_images
    if len(shape) != 3:
        raise ValueError(f"crops and flips need images (channels, height, width), got {shape}")

    def cropped(x: Tensor, generator: torch.Generator) -> Tensor:
        return crops_and_flips(x.view(-1, *shape), generator).flatten(1)

    return cropped


class PlainTraining(Loop):
    """Train a deterministic module by Adam on −ln P(label), P(label) being softmax or sigmoid.

    Args:
        module: maps examples to scores; it is trained itself, in training mode.
        x, y: the prior's own part of the data.
        augment: makes an epoch's examples from x and a generator.
    """

    def __init__(
        self, module: nn.Module, x: Tensor, y: Tensor, settings: Settings, augment: Augment | None
    ) -> None:
        check_together(module, x, y)
        with torch.no_grad(), seeded(settings.seed, "prior training"), redirected():
            outputs = ask(copy.deepcopy(module).eval(), x[:1]).shape[-1]
        self.task: Task = task_of(max(2, outputs))
        check_examples(x, y, self.task)
        super().__init__(module, len(x), settings)
        self.x, self.y, self.augment = x, y, augment
        self.shown = x

    def begin_epoch(self) -> None:
        epochs = self.settings.epochs
        self.shown = augmented(self.x, self.augment, self.seed, self.epoch, epochs)

    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        self.optimiser.param_groups[0]["lr"] = rate
        score, y = self._scores(self.shown[index]), self.y[index]
        loss = softplus(-y * score).mean() if score.dim() == 1 else cross_entropy(score, y)
        self.optimiser.zero_grad()
        loss.backward()
        self._decay(rate)
        self.optimiser.step()
        return float(self.task.wrong(score.detach(), y).mean())

    def _scores(self, x: Tensor) -> Tensor:
        """Return the module's scores; its dropout draws from the run's generators."""
        narrow = torch.autocast(
            x.device.type, torch.bfloat16, enabled=self.settings.prior_precision == "bfloat16"
        )
        with redirected(), narrow:
            z = ask(self.model, x)
        return self.task.scores(z.float() if z.dtype == torch.bfloat16 else z)

    @torch.no_grad()
    def _decay(self, rate: float) -> None:
        """Shrink the weights, but not biases and norms (Loshchilov & Hutter 2019)."""
        if factor := rate * self.settings.prior_decay:
            matrices = (p for p in self.model.parameters() if p.dim() > 1 and p.requires_grad)
            for p in matrices:
                p.mul_(1 - factor)

    @torch.no_grad()
    def measured_risk(self) -> float:
        """Return the error on the prior's own part, which says nothing about new data."""
        wrong = 0.0
        for x, y in zip(self.x.split(_BLOCK), self.y.split(_BLOCK), strict=True):
            wrong += float(self.task.wrong(self._scores(x), y).sum())
        return wrong / self.n

    def divergence(self) -> Tensor:
        return torch.zeros((), device=CPU)

    def bound(self, risk: float, kl: float) -> float:
        return risk

    @property
    def lam(self) -> float:
        return 0.0


def learn_prior(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int = 20,
    learning_rate: float = 0.01,
    batch_size: int | None = None,
    decay: float = 0.0,
    augment: Augment | None = None,
    precision: Precision = "float32",
    seed: int = 0,
    fold: bool = True,
    checkpoint: Path | None = None,
) -> nn.Module:
    """Train a copy of any module on the prior's part of the data; its weights are a prior's means.

    Plain training with the log loss, Adam, a warm-up and a cosine. Batch norm is allowed, and is
    folded into the layers before it afterwards; dropout is switched off. Give the result to
    `stochastic`, which makes it prior and posterior, and the other examples to `train` and
    `certify`, or to `certify_network`.

    Args:
        module: maps examples to scores: one for labels −1/+1, k for class indices.
        x, y: the prior's part, which no bound may be on.
        decay: weight decay, decoupled as in AdamW; biases and norms have none.
        augment: function of examples and a generator, such as `moved_images`; the generator is the
            CPU's, so that every device sees the same images.
        precision: of products in training; the weights and the result are float32 in any case.
        seed: of batches and augmentation; the module's weights are a start, as they are.
        fold: False leaves batch norm, with its statistics frozen.
        checkpoint: file to resume from, and to save to along the way.

    Returns:
        The module in evaluation mode.
    """
    settings = Settings.of(
        "fast",
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        prior_decay=decay,
        prior_precision=precision,
        evaluate_every=epochs,
        seed=stream(seed, "prior training") >> 1,
    )
    loop = PlainTraining(copy.deepcopy(module), x, y, settings, augment)
    _run(loop, checkpoint)
    learned = _without_dropout(loop.model)
    return same_scores(learned, fold_batch_norm(learned), x) if fold else learned


def _run(loop: PlainTraining, checkpoint: Path | None) -> None:
    """Train to the end, from a checkpoint if there is one."""
    owner = {} if checkpoint is None else {"learning": _digest(loop)}

    def save() -> None:
        if checkpoint is not None:
            tensors, record = loop.state()
            save_tensors(checkpoint, tensors, record | owner)

    if checkpoint is not None and checkpoint.exists():
        tensors, record = load_tensors(checkpoint)
        if not isinstance(record, dict) or record.get("learning") != owner["learning"]:
            raise ValueError(
                f"{checkpoint} belongs to other examples, settings or another module; remove it or "
                "choose another file"
            )
        restore(loop, checkpoint, tensors, record)
    for _ in run_to_end(loop, save):
        pass


def _digest(loop: PlainTraining) -> str:
    """Return a hash of everything that the result depends on, but not of an augmentation's code."""
    hasher = hashlib.sha256(loop.settings.model_dump_json().encode())
    hasher.update(getattr(loop.augment, "__name__", "none").encode())
    state: dict[str, Any] = loop.model.state_dict()
    for tensor in (loop.x, loop.y, *state.values()):
        hasher.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return hasher.hexdigest()


def settled(module: nn.Module) -> nn.Module:
    """Return a copy that gives every example the same scores: no dropout, batch norm folded.

    Batch norm stays, with its statistics frozen, where the order of layers cannot be traced. The
    structure of the result depends on that of the module alone.
    """
    frozen = _without_dropout(copy.deepcopy(module))
    with suppress(ValueError):
        return fold_batch_norm(frozen)
    return frozen


def _without_dropout(module: nn.Module) -> nn.Module:
    for part in module.modules():
        if isinstance(part, _DropoutNd):
            part.p = 0.0
    return module.eval()


@torch.no_grad()
def same_scores(module: nn.Module, folded: nn.Module, x: Tensor) -> nn.Module:
    """Return the folded module; raise ValueError if it has other scores on examples."""
    before, after = ask(module, x[:_BLOCK]), ask(folded, x[:_BLOCK])
    if not (after - before).abs().max() <= _SAME * before.abs().max():
        raise ValueError(
            "folding batch norm changed the module's scores; use fold=False, which freezes its "
            "statistics instead"
        )
    return folded
