"""The loop. It knows a network, its settings and the data; it yields what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from pacbayes.bounds import catoni
from pacbayes.draws import Draw, estimate
from pacbayes.engine import NativeEngine, unsupported
from pacbayes.examples import check_examples
from pacbayes.gaussian import kl
from pacbayes.network import Network
from pacbayes.objectives import catoni_objective, fix_lambda, small_kl_lambda
from pacbayes.randomness import stream
from pacbayes.reinforce import draw_weights
from pacbayes.risk import empirical_risk
from pacbayes.schedules import halvings, warm_cosine
from pacbayes.settings import Settings

__all__ = ["Evaluation", "Progress", "Trainer", "learned_nothing", "train", "why_torch"]

_EVALUATIONS = 2**62  # streams of evaluations, beyond those of any training step
_HOPELESS_EPOCH = 10  # the paper ends runs that have not learned by then


@dataclass(frozen=True)
class Evaluation:
    """The state of a run on the whole training set.

    Attributes:
        risk: sampled linear loss.
        kl: KL(Q|P).
        bound: Catoni's, at its best λ and without a Monte-Carlo term: a guide, not a certificate.
        lam: the objective's current λ.
        learning_rate: at the end of the epoch.
        seconds: of training so far.
    """

    epoch: int
    risk: float
    kl: float
    bound: float
    lam: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class Progress:
    """One mini-batch done; the last one of an evaluated epoch carries the evaluation."""

    epoch: int
    batch: int
    batches: int
    evaluation: Evaluation | None = None


class Trainer:
    """A run in memory: `steps()` advances it, `state()` and `restore()` let it stop anywhere.

    Its randomness is torch's generator, seeded at the first epoch and restored with the state, and
    the native engine's streams, keyed by the step: an interrupted run ends with the same bits as
    an uninterrupted one.
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor, settings: Settings) -> None:
        check_examples(x, y, network.classes)
        network.look()
        kl(network)  # refuses what Q does not cover
        self.network, self.x, self.y, self.settings = network, x, y, settings
        self.shown = x  # what steps see; evaluations see the examples as they are
        self.log_loss = False  # whether steps descend −ln(1 − loss), which no bound is about
        self.n = len(x)
        self.log_lambda = torch.tensor(math.log(settings.lam or self.n), dtype=torch.float64)
        self.optimiser = torch.optim.Adam(network.parameters(), fused=True)
        self.epoch = 0
        self.seconds = 0.0
        self.history: list[Evaluation] = []
        self.best = {name: p.detach().clone() for name, p in network.named_parameters()}
        self.seed = stream(settings.seed, "training")
        self.generator_state = torch.Generator().manual_seed(self.seed).get_state()
        self.native = _native_engine(network, x, settings, settings.samples)
        self.evaluator = _native_engine(network, x, settings, settings.evaluation_samples)

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs or self.hopeless

    @property
    def hopeless(self) -> bool:
        """Whether the paper's rule ends the run: little better than chance after ten epochs."""
        late = [e.risk for e in self.history if e.epoch >= _HOPELESS_EPOCH]
        published = self.settings.protocol == "paper"
        return published and bool(late) and learned_nothing(late[0], self.network.classes)

    def steps(self) -> Iterator[Progress]:
        """Train to the end, an epoch at a time; the state is consistent whenever one is over."""
        while not self.finished:
            epoch, generator = self._one_epoch(), self.generator_state
            while True:
                with torch.random.fork_rng(devices=[]):  # the caller's randomness stays its own
                    torch.set_rng_state(generator)
                    progress = next(epoch, None)
                    generator = torch.get_rng_state()
                if progress is None:
                    break
                yield progress

    def _one_epoch(self) -> Iterator[Progress]:
        start = time.perf_counter()
        s = self.settings
        order = torch.randperm(self.n).split(s.batch(self.n))
        batches = len(order)
        self.network.train()
        total = 0.0  # of the examples' losses
        for i, index in enumerate(order):
            done = (self.epoch + i / batches) / s.epochs
            rate = self._learning_rate(done)
            step = self.epoch * batches + i
            if s.objective == "optim-lambda" and step % 2 == 1:
                self._lambda_step(index, step)
            else:
                total += self.weight_step(index, step, rate, done) * len(index)
            if i + 1 < batches:
                yield Progress(self.epoch + 1, i + 1, batches)
        self.epoch += 1
        if s.objective == "small-kl":
            lam = small_kl_lambda(total / self.n, kl(self.network).item(), self.n, s.delta)
            self.log_lambda = torch.tensor(math.log(lam), dtype=torch.float64)
        self.seconds += time.perf_counter() - start
        evaluation = None
        if self.epoch % s.evaluate_every == 0 or self.epoch == s.epochs:
            evaluation = self._evaluate(rate)
        self.generator_state = torch.get_rng_state()
        yield Progress(self.epoch, batches, batches, evaluation)

    def weight_step(self, index: Tensor, step: int, rate: float, done: float) -> float:
        """One step on the weights: examples, number of the step, rate, part of the run done.

        Returns:
            The batch's risk before it.
        """
        s = self.settings
        weight = min(1.0, done / s.kl_warmup) if s.kl_warmup else 1.0
        lam = self.log_lambda.exp().item()
        self.optimiser.param_groups[0]["lr"] = rate
        if self.native is not None:
            loss = self.native.loss_and_grad(
                self.shown, self.y, index, self.seed, step, log_loss=self.log_loss
            )
            self.native.adam_step(self.optimiser, weight / lam)
            return loss / len(index)
        losses = self._losses(self.shown[index], self.y[index])
        risk = losses.mean()
        minimised = -torch.log1p(-losses.clamp(max=1 - 1e-6)).mean() if self.log_loss else risk
        self.optimiser.zero_grad()
        fix_lambda(minimised, self.network, weight / lam)
        self.optimiser.step()
        return risk.item()

    def _losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Of every example, (B,), with a gradient by the run's estimator."""
        s = self.settings
        if s.estimator not in ("reinforce", "reinforce-per-example"):
            return self.network.loss(self.network(x, s.samples), y)
        per_example = s.estimator == "reinforce-per-example"
        draw = draw_weights(self.network, x, s.samples, per_example=per_example)
        return estimate(Draw(self.network.loss(draw.value, y), draw.log_prob)).mean(0)

    def _lambda_step(self, index: Tensor, step: int) -> None:
        s = self.settings
        with torch.no_grad():
            if self.native is not None:
                loss = self.native.loss(self.x, self.y, index, self.seed, step)
                risk = torch.tensor(loss / len(index), dtype=torch.float64)
            else:
                F = self.network(self.x[index], s.samples)
                risk = self.network.loss(F, self.y[index]).double().mean()
            divergence = kl(self.network)
        log_lambda = self.log_lambda.clone().requires_grad_()
        bound = catoni_objective(risk, divergence, self.n, s.delta, log_lambda)
        (slope,) = torch.autograd.grad(bound, log_lambda)
        moved = self.log_lambda - s.lambda_rate * slope
        self.log_lambda = moved.clamp(min=1e-6)  # the theorem has λ > 1

    def _evaluate(self, rate: float) -> Evaluation:
        s = self.settings
        self.network.eval()
        if self.evaluator is not None:
            everything = torch.arange(self.n)
            step = _EVALUATIONS + self.epoch
            risk = self.evaluator.loss(self.x, self.y, everything, self.seed, step) / self.n
        else:
            risk = empirical_risk(self.network, self.x, self.y, s.evaluation_samples).mean
        divergence = kl(self.network).item()
        if not math.isfinite(risk + divergence):
            raise FloatingPointError(
                f"training diverged in epoch {self.epoch}; try a learning rate below "
                f"{s.learning_rate}, or features and a prior scale nearer 1"
            )
        bound = catoni(risk, divergence, self.n, s.delta)
        if all((bound, risk) < (e.bound, e.risk) for e in self.history):  # by risk where vacuous
            self.best = {name: p.detach().clone() for name, p in self.network.named_parameters()}
        lam = self.log_lambda.exp().item()
        evaluation = Evaluation(self.epoch, risk, divergence, bound, lam, rate, self.seconds)
        self.history.append(evaluation)
        return evaluation

    def _learning_rate(self, done: float) -> float:
        s = self.settings
        if s.protocol == "paper":
            return s.learning_rate * 0.5 ** halvings([e.bound for e in self.history])
        return s.learning_rate * warm_cosine(done)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next epoch depends on: tensors, and a JSON record."""
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for i, slots in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{k}": v.clone() for k, v in slots.items()}
        tensors |= {"log_lambda": self.log_lambda, "generator": self.generator_state}
        history = [asdict(e) for e in self.history]
        return tensors, {"epoch": self.epoch, "seconds": self.seconds, "history": history}

    def restore(self, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
        """Take up what `state()` gave."""
        self.network.load_state_dict(_below(tensors, "network."))
        self.best = _below(tensors, "best.")
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(tensors, "optimiser.").items():
            i, key = name.split(".")
            slots.setdefault(int(i), {})[key] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": slots, "param_groups": groups})
        self.log_lambda, self.generator_state = tensors["log_lambda"], tensors["generator"]
        self.epoch, self.seconds = record["epoch"], record["seconds"]
        self.history = [Evaluation(**e) for e in record["history"]]


def learned_nothing(risk: float, classes: int) -> bool:
    """Above nine tenths of what guessing would err, which for two classes is the paper's 0.45."""
    return risk > 0.9 * (1 - 1 / classes)


def why_torch(network: Network, x: Tensor, settings: Settings) -> str | None:
    """Why a run's steps are torch's; None where the native engine makes them."""
    if settings.engine == "torch":
        return "asked for"
    if settings.estimator.startswith("reinforce"):
        return "the native engine does not draw weights"
    return unsupported(network, x)


def _native_engine(
    network: Network, x: Tensor, settings: Settings, samples: int
) -> NativeEngine | None:
    reason = why_torch(network, x, settings)
    if reason is None:
        return NativeEngine(network, samples)
    if settings.engine == "native":
        raise ValueError(f"{reason}; use --engine torch")
    return None


def train(network: Network, x: Tensor, y: Tensor, settings: Settings) -> list[Evaluation]:
    """Train to the end, leave the network at its best epoch by bound, return every evaluation."""
    trainer = Trainer(network, x, y, settings)
    for _ in trainer.steps():
        pass
    network.load_state_dict(network.state_dict() | trainer.best)
    return trainer.history


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
