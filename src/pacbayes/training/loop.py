"""The loop over epochs and mini-batches: it steps, evaluates, keeps the best, stops and resumes.

What a step and an evaluation are is for those who know the network: `training.Trainer`, and the
baselines' `fitting.Fitting`.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes.randomness import stream
from pacbayes.settings import Settings
from pacbayes.training.schedules import halvings, warm_cosine

__all__ = ["EVALUATIONS", "VACUOUS", "Evaluation", "Loop", "Progress", "learned_nothing"]

EVALUATIONS = 2**62  # streams of evaluations, beyond those of any training step
VACUOUS = 0.9995  # a bound from here on is 100 % to the paper's digits
_HOPELESS_EPOCH = 10  # the paper ends runs that have not learned by then
_LONGEST_STEP = 7.3  # of Adam in units of its rate: (1 − β₁)/√((1 − β₂)(1 − β₁²/β₂))


@dataclass(frozen=True)
class Evaluation:
    """The state of a run on the whole training set.

    Attributes:
        risk: sampled linear loss.
        kl: KL(Q|P).
        bound: without a Monte-Carlo term, Catoni's at its best λ: a guide, not a certificate.
        lam: the objective's current λ, or PBGNet's C.
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

    @property
    def guide(self) -> tuple[float, float]:
        """What is to fall: the bound, and the risk where that prints as 100 % and says nothing.

        Digits beyond those rank nothing: at a KL of a million they still move, in float64.
        """
        return (self.bound if self.bound < VACUOUS else 1.0), self.risk


@dataclass(frozen=True)
class Progress:
    """One mini-batch done, or an epoch; the last of an evaluated epoch carries the evaluation."""

    epoch: int
    batch: int
    batches: int
    evaluation: Evaluation | None = None


class Loop(ABC):
    """A run in memory: `steps()` advances it, `state()` and `restore()` let it stop anywhere.

    Its randomness is torch's generator, seeded at the first epoch and restored with the state, and
    streams keyed by the step: an interrupted run ends with the same bits as an uninterrupted one.
    """

    def __init__(self, model: nn.Module, n: int, settings: Settings) -> None:
        self.model, self.n, self.settings = model, n, settings
        self.optimiser = torch.optim.Adam(model.parameters(), fused=True)
        self.epoch = 0
        self.seconds = 0.0
        self.history: list[Evaluation] = []
        self.best = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.seed = stream(settings.seed, "training")
        self.generator_state = torch.Generator().manual_seed(self.seed).get_state()

    @abstractmethod
    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        """One step: examples, its number, rate, part of the run done; returns the batch's risk."""

    @abstractmethod
    def measured_risk(self) -> float:
        """Of the whole training set."""

    @abstractmethod
    def divergence(self) -> Tensor:
        """KL(Q|P)."""

    @abstractmethod
    def bound(self, risk: float, kl: float) -> float:
        """What guides the learning rate and says which epoch is the best."""

    @property
    @abstractmethod
    def lam(self) -> float:
        """What evaluations record as λ."""

    @property
    def classes(self) -> int:
        return 2

    @property
    def negligible(self) -> float:
        """How far a weight may move and nothing predicted changes; by default not at all."""
        return 0.0

    def epoch_is_over(self, risk: float) -> None:  # noqa: B027 - most have nothing to do
        """Given the mean risk of the epoch's batches."""

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs or self.hopeless

    @property
    def hopeless(self) -> bool:
        """Whether the paper's rule ends the run: little better than chance after ten epochs."""
        late = [e.risk for e in self.history if e.epoch >= _HOPELESS_EPOCH]
        published = self.settings.protocol == "paper"
        return published and bool(late) and learned_nothing(late[0], self.classes)

    @property
    def spent(self) -> bool:
        """Whether all steps that are left, together, can move no weight by what is negligible.

        The published rate, halved at every evaluation that shows nothing better, comes to that in
        runs whose bound stays vacuous. Their epochs go on without steps, optim-λ's on λ included.
        """
        left = (self.settings.epochs - self.epoch) * math.ceil(self.n / self.settings.batch(self.n))
        reach = _LONGEST_STEP * self.learning_rate(self.epoch / self.settings.epochs) * left
        return self.settings.protocol == "paper" and reach < self.negligible

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
        self.model.train()
        total, spent = 0.0, self.spent  # total of the examples' losses
        rate = self.learning_rate(self.epoch / s.epochs)
        for i, index in enumerate(() if spent else order):
            done = (self.epoch + i / batches) / s.epochs
            rate = self.learning_rate(done)
            total += self.step(index, self.epoch * batches + i, rate, done) * len(index)
            if i + 1 < batches:
                yield Progress(self.epoch + 1, i + 1, batches)
        self.epoch += 1
        if not spent:
            self.epoch_is_over(total / self.n)
        self.seconds += time.perf_counter() - start
        evaluation = None
        if self.epoch % s.evaluate_every == 0 or self.epoch == s.epochs:
            evaluation = self._evaluate(rate)
        self.generator_state = torch.get_rng_state()
        yield Progress(self.epoch, batches, batches, evaluation)

    def _evaluate(self, rate: float) -> Evaluation:
        self.model.eval()
        risk, divergence = self.measured_risk(), self.divergence().item()
        if not math.isfinite(risk + divergence):
            raise FloatingPointError(
                f"training diverged in epoch {self.epoch}; try a learning rate below "
                f"{self.settings.learning_rate}, or features and a prior scale nearer 1"
            )
        bound = self.bound(risk, divergence)
        evaluation = Evaluation(self.epoch, risk, divergence, bound, self.lam, rate, self.seconds)
        if all(evaluation.guide < e.guide for e in self.history):
            self.best = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.history.append(evaluation)
        return evaluation

    def learning_rate(self, done: float) -> float:
        """Halved where the bound has not improved (paper), or up and down a cosine (fast)."""
        s = self.settings
        if s.protocol == "paper":
            return s.learning_rate * 0.5 ** halvings([e.guide[0] for e in self.history])
        return s.learning_rate * warm_cosine(done)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the next epoch depends on: tensors, and a JSON record."""
        tensors = {f"network.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for i, slots in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{k}": v.clone() for k, v in slots.items()}
        tensors["generator"] = self.generator_state
        history = [asdict(e) for e in self.history]
        return tensors, {"epoch": self.epoch, "seconds": self.seconds, "history": history}

    def restore(self, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
        """Take up what `state()` gave."""
        self.model.load_state_dict(_below(tensors, "network."))
        self.best = _below(tensors, "best.")
        slots: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _below(tensors, "optimiser.").items():
            i, key = name.split(".")
            slots.setdefault(int(i), {})[key] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": slots, "param_groups": groups})
        self.generator_state = tensors["generator"]
        self.epoch, self.seconds = record["epoch"], record["seconds"]
        self.history = [Evaluation(**e) for e in record["history"]]


def learned_nothing(risk: float, classes: int) -> bool:
    """Above nine tenths of what guessing would err, which for two classes is the paper's 0.45."""
    return risk > 0.9 * (1 - 1 / classes)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
