"""Train a network on an objective: what a step and an evaluation are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from pacbayes.bounds import catoni
from pacbayes.data.tasks import check_examples
from pacbayes.devices import CPU, check_together, wide
from pacbayes.engine.network import NativeEngine, unsupported
from pacbayes.networks.activations import Draw, estimate
from pacbayes.networks.families.diagonal import has_prior_scale, prior_scale
from pacbayes.networks.families.rotated import Rotated
from pacbayes.networks.network import Network, first_layer, without_basis
from pacbayes.networks.posterior import gaussians, kl
from pacbayes.networks.predictors import draw_weights
from pacbayes.networks.risk import empirical_risk
from pacbayes.settings import Settings
from pacbayes.training.loop import EVALUATIONS, Batch, Evaluation, Loop
from pacbayes.training.objectives import OBJECTIVES, backward_with_kl

__all__ = ["Trainer", "train", "why_torch"]


def _refuse_other_scales(network: Network, settings: Settings) -> None:
    """Refuse a prior scale in the settings that the network does not have."""
    if "prior_scale" not in settings.model_fields_set:
        return
    for name, g in gaussians(network).items():
        if not has_prior_scale(g, settings.prior_scale):
            raise ValueError(
                f"prior_scale={settings.prior_scale:g} in the settings has no effect: the prior of "
                f"{name} has scale {prior_scale(g):g}; build the network with it"
            )


def _choose_basis(network: Network, x: Tensor) -> None:
    """Choose the basis of a posterior that has none yet, from the examples it will be trained on.

    It belongs to Q, so that it may follow from the bound set.
    """
    weight, architecture = first_layer(network).weight, network.architecture
    chosen = architecture is not None and architecture.basis == "eigen"
    if chosen and isinstance(weight, Rotated) and not weight.reflections.any():
        weight.choose(x)


def _seen(network: Network, x: Tensor) -> Tensor:
    """Return examples as the first layer sees them."""
    weight = first_layer(network).weight
    return weight.all_seen(x) if isinstance(weight, Rotated) else x


class Trainer(Loop):
    """A run of a network on one of the objectives, in the native engine where it can be."""

    def __init__(self, network: Network, x: Tensor, y: Tensor, settings: Settings) -> None:
        check_examples(x, y, network.task)
        check_together(network, x, y)
        network.seal_prior()
        kl(network)  # refuses what Q does not cover
        _refuse_other_scales(network, settings)
        _choose_basis(network, x)
        super().__init__(network, len(x), settings)
        self.network, self.x, self.y = without_basis(network), _seen(network, x), y
        self._whole, self._given = network, x
        self.shown = self.x  # what steps see, perhaps augmented; evaluations see x
        self.log_loss = False  # whether steps descend −ln(1 − loss), which no bound covers
        self.objective = OBJECTIVES[settings.objective](settings, self.n)
        network = self.network
        why = why_torch(network, self.x, settings)
        if why and settings.engine == "native":
            raise ValueError(f"{why}; use --engine torch")
        reinforce = settings.estimator == "reinforce"
        self.native = None if why else NativeEngine(network, settings.samples, reinforce=reinforce)
        self.evaluator = None if why else NativeEngine(network, settings.evaluation_samples)

    @property
    def classes(self) -> int:
        return self.network.classes

    @property
    def negligible(self) -> float:
        """A four-thousandth of the prior's least standard deviation, or of a unit of log-scales."""
        return 2.5e-4 * min(1.0, *map(prior_scale, gaussians(self.network).values()))

    @property
    def lam(self) -> float:
        return self.objective.lam

    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        """Step on the weights, or on λ where the objective wants it."""
        if not self.objective.is_lambda_step(number):
            return self.weight_step(index, number, rate, done)
        risk = self._batch_risk(index, number)
        with torch.no_grad():
            divergence = kl(self.network)
        self.objective.lambda_step(risk.to(CPU), divergence.to(CPU))
        return risk.item()

    def make_steps(self, batches: Sequence[Batch]) -> Iterator[list[float]]:
        """Make steps in turn; several in one call of the native engine, if all are on weights."""
        if self.native is None or any(self.objective.is_lambda_step(b.number) for b in batches):
            yield from super().make_steps(batches)
            return
        size = self.native.at_once(self.settings.batch(self.n))
        for start in range(0, len(batches), size):
            yield self._native_steps(self.native, batches[start : start + size])

    def end_epoch(self, risk: float) -> None:
        self.objective.end_epoch(risk, self.divergence)

    def weight_step(self, index: Tensor, step: int, rate: float, done: float) -> float:
        """Make one step on the weights and return the batch's risk before it."""
        if self.native is not None:
            return self._native_steps(self.native, [Batch(index, step, rate, done)])[0]
        self.optimiser.param_groups[0]["lr"] = rate
        y = self.y[index]
        losses, probability = self._losses(self.shown[index], y)
        risk = minimised = losses.mean()
        if self.log_loss:
            minimised = (losses / probability).mean()
        self.optimiser.zero_grad()
        backward_with_kl(minimised, self.network, self._warmth(done) / self.lam)
        self.optimiser.step()
        return risk.item()

    def _native_steps(self, native: NativeEngine, batches: Sequence[Batch]) -> list[float]:
        """Make steps on the weights in one call and return the batches' risks before them."""
        lam = self.lam
        losses = native.train(
            self.shown,
            self.y,
            [b.index for b in batches],
            self.seed,
            batches[0].number,
            self.optimiser,
            rates=[b.rate for b in batches],
            coefficients=[self._warmth(b.done) / lam for b in batches],
            log_loss=self.log_loss,
        )
        return [loss / b.index.numel() for loss, b in zip(losses, batches, strict=True)]

    def _warmth(self, done: float) -> float:
        """Return the part of the KL's weight 1/λ that applies, which rises to 1 in the warm-up."""
        warmup = self.settings.kl_warmup
        return min(1.0, done / warmup) if warmup else 1.0

    def _losses(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return every example's loss, (B,), with the estimator's gradient, and P(label) without.

        P(label) is bounded away from zero.
        """
        s, task = self.settings, self.network.task
        if s.estimator in ("reinforce", "reinforce-per-example"):
            per_example = s.estimator == "reinforce-per-example"
            draw = draw_weights(self.network, x, s.samples, per_example=per_example)
            losses = estimate(Draw(self.network.loss(draw.value, y), draw.log_prob)).mean(0)
            value = draw.value.mean(0)
        elif self.network.outputs > 1:
            own = self.network.label_probability(x, y, s.samples)
            return 1 - own, own.detach().clamp(min=1e-300)
        else:
            value = self.network(x, s.samples)
            losses = self.network.loss(value, y)
        return losses, task.label_probability(value.detach(), y.to(value.device))

    @torch.no_grad()
    def _batch_risk(self, index: Tensor, step: int) -> Tensor:
        s = self.settings
        reinforce = s.estimator == "reinforce"  # whose engine has one sample for a loss
        if (engine := self.evaluator if reinforce else self.native) is not None:
            loss = engine.loss(self.x, self.y, index, self.seed, step)
            return torch.tensor(loss / len(index), dtype=torch.float64, device=CPU)
        F = self.network(self.x[index], s.samples)
        return wide(self.network.loss(F, self.y[index])).mean()

    def measured_risk(self) -> float:
        if self.evaluator is not None:
            everything = torch.arange(self.n, device=CPU)
            step = EVALUATIONS + self.epoch
            total = self.evaluator.loss(self.x, self.y, everything, self.seed, step)
            return max(0.0, total / self.n)  # floats of P(label) may sum to a little above one
        return empirical_risk(self.network, self.x, self.y, self.settings.evaluation_samples).mean

    def divergence(self) -> Tensor:
        return kl(self.network)

    def bound(self, risk: float, kl: float) -> float:
        return catoni(risk, kl, self.n, self.settings.delta)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the loop's state, and λ."""
        tensors, record = super().state()
        return tensors | {"log_lambda": self.objective.log_lambda}, record

    def restore(self, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(tensors, record)
        self.objective.log_lambda = tensors["log_lambda"]
        if self.network is not self._whole:  # whose basis may have been another
            first = without_basis(self._whole)
            own = gaussians(self.network)
            for name, g in gaussians(first).items():
                own[name].prior_mean.copy_(g.prior_mean)
            self.x = self.shown = _seen(self._whole, self._given)


def why_torch(network: Network, x: Tensor, settings: Settings) -> str | None:
    """Return why PyTorch makes a run's steps; None where the native engine does."""
    network = without_basis(network)
    if settings.engine == "torch":
        return "asked for"
    if settings.estimator == "reinforce-per-example":
        return "the native engine does not draw weights for every example"
    if settings.estimator == "reinforce" and (settings.learned_scale or network.classes > 2):
        return "native REINFORCE needs fixed scales and two classes"
    return unsupported(network, x)


def train(network: Network, x: Tensor, y: Tensor, settings: Settings) -> list[Evaluation]:
    """Train to the end, leave the network at its best epoch by bound and return all evaluations."""
    trainer = Trainer(network, x, y, settings)
    for _ in trainer.steps():
        pass
    network.load_state_dict(network.state_dict() | trainer.best)
    return trainer.history
