"""The loop over epochs and batches: it steps, evaluates, keeps the best, stops and resumes.

Subclasses say what a step and an evaluation are: `trainer.Trainer` for the library's networks and
`paper.baselines.Fitting` for the baselines.
"""

from __future__ import annotations

import inspect
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes.choices import Protocol
from pacbayes.devices import CPU, device_of
from pacbayes.randomness import Generators, drawing_from, permutation, stream
from pacbayes.settings import Settings

__all__ = [
    "CHECKPOINT_SECONDS",
    "CONSTANT",
    "EVALUATIONS",
    "SCHEDULES",
    "VACUOUS",
    "Batch",
    "Evaluation",
    "Loop",
    "Progress",
    "Schedule",
    "halvings",
    "hopeless",
    "learned_nothing",
    "run_to_end",
    "warm_cosine",
]


def halvings(bounds: Sequence[float]) -> int:
    """Return how often the paper's rule has halved the rate.

    It halves whenever an evaluation is not below the smaller of the two before it.
    """
    return sum(bounds[i] >= min(bounds[i - 2 : i]) for i in range(2, len(bounds)))


def warm_cosine(t: float, warm: float = 0.05) -> float:
    """Rise linearly for the first twentieth of the run, then fall to zero along a cosine."""
    return min(1.0, (t + 1e-3) / warm) * 0.5 * (1 + math.cos(math.pi * t))


@dataclass(frozen=True)
class Schedule:
    """The learning rate and the early end of a run.

    Attributes:
        factor: of the initial learning rate, given the bounds of all evaluations so far and the
            completed fraction of the run.
        gives_up: whether a run that has learned nothing after ten epochs ends, and steps too
            small to matter are skipped, as in the paper.
    """

    factor: Callable[[Sequence[float], float], float]
    gives_up: bool = False


SCHEDULES: dict[Protocol, Schedule] = {
    "paper": Schedule(lambda bounds, done: 0.5 ** halvings(bounds), gives_up=True),
    "fast": Schedule(lambda bounds, done: warm_cosine(done)),
}
CONSTANT = Schedule(lambda bounds, done: 1.0, gives_up=True)


EVALUATIONS = 2**62  # streams of evaluations, beyond those of any training step
VACUOUS = 0.9995  # a bound from here on is 100 % to the paper's digits
CHECKPOINT_SECONDS = 10.0  # at most this much work is lost, beside an unfinished epoch
_HOPELESS_EPOCH = 10  # the paper ends runs that have not learned by then
_LONGEST_STEP = 7.3  # of Adam in units of its rate: (1 − β₁)/√((1 − β₂)(1 − β₁²/β₂))


@dataclass(frozen=True)
class Evaluation:
    """The state of a run on the whole training set.

    Attributes:
        risk: sampled linear loss.
        kl: KL(Q|P).
        bound: Catoni's at its best λ, without a Monte-Carlo term: a guide, not a certificate.
        lam: the objective's current λ, or PBGNet's C.
        learning_rate: at the end of the epoch.
        seconds: training time so far.
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
        """Return the key by which evaluations rank: the bound, then the risk.

        A bound that prints as 100 % counts as 1, since its further digits say nothing.
        """
        return (self.bound if self.bound < VACUOUS else 1.0), self.risk


@dataclass(frozen=True)
class Progress:
    """Batches are done, up to number `batch` of an epoch; its last may carry an evaluation."""

    epoch: int
    batch: int
    batches: int
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class Batch:
    """A step to be made.

    Attributes:
        index: examples of the batch.
        number: of the step, counted from 0.
        done: completed fraction of the run.
    """

    index: Tensor
    number: int
    rate: float
    done: float


class _Adam(torch.optim.Adam):
    """Adam whose methods do not import torch's compiler, which would take a second.

    PyTorch wraps them so that they are not compiled, and nothing is compiled here.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class Loop(ABC):
    """A run in memory: `steps()` advances it, `state()` and `restore()` let it stop anywhere.

    Its randomness is that of generators of its own, whose states belong to the run's, and streams
    keyed by the step: an interrupted run ends with the same bits as an uninterrupted one, whatever
    other threads do. Torch's own generator is neither read nor written.

    Args:
        schedule: learning rate and early end; the protocol's by default.
    """

    def __init__(
        self, model: nn.Module, n: int, settings: Settings, schedule: Schedule | None = None
    ) -> None:
        self.model, self.n, self.settings = model, n, settings
        self.schedule = schedule or SCHEDULES[settings.protocol]
        self.optimiser = _Adam(model.parameters(), fused=True)
        self.epoch = 0
        self.seconds = 0.0
        self.history: list[Evaluation] = []
        self.best = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.seed = stream(settings.seed, "training")
        self.generator_states = Generators(self.seed).states()  # by type of device

    @abstractmethod
    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        """Make one step and return the batch's risk; the arguments are those of a `Batch`."""

    def make_steps(self, batches: Sequence[Batch]) -> Iterator[list[float]]:
        """Make the steps of an epoch in turn; yield batches' risks, one or a few at a time."""
        for b in batches:
            yield [self.step(b.index, b.number, b.rate, b.done)]

    @abstractmethod
    def measured_risk(self) -> float:
        """Return the risk on the whole training set."""

    @abstractmethod
    def divergence(self) -> Tensor:
        """Return KL(Q|P)."""

    @abstractmethod
    def bound(self, risk: float, kl: float) -> float:
        """Return the bound that ranks the epochs."""

    def guide(self, evaluation: Evaluation) -> float:
        """Return the bound that the learning rate follows: by default the one that ranks."""
        return evaluation.guide[0]

    @property
    @abstractmethod
    def lam(self) -> float:
        """The λ that evaluations record."""

    @property
    def device(self) -> torch.device:
        """Where the model is, and its examples are."""
        return device_of(self.model)

    @property
    def classes(self) -> int:
        """The number of classes.

        :meta private:
        """
        return 2

    @property
    def negligible(self) -> float:
        """How far weights may move without changing any prediction; by default not at all."""
        return 0.0

    def begin_epoch(self) -> None:  # noqa: B027 - most have nothing to do
        """Prepare an epoch."""

    def end_epoch(self, risk: float) -> None:  # noqa: B027 - most have nothing to do
        """Follow an epoch up, given the mean risk of its batches."""

    @property
    def finished(self) -> bool:
        """Whether the last epoch has ended, or the training was given up."""
        return (self.epoch >= self.settings.epochs and bool(self.history)) or self.hopeless

    @property
    def hopeless(self) -> bool:
        """Whether the run ends early because it has learned nothing."""
        return hopeless(self.history, self.schedule, self.classes)

    @property
    def spent(self) -> bool:
        """Whether all remaining steps together cannot move a weight by more than is negligible.

        The paper halves the rate at every evaluation without improvement, which leads to this where
        the bound stays vacuous. Epochs then go on without steps, those on λ included.
        """
        left = (self.settings.epochs - self.epoch) * math.ceil(self.n / self.settings.batch(self.n))
        reach = _LONGEST_STEP * self.learning_rate(self.epoch / self.settings.epochs) * left
        return self.schedule.gives_up and reach < self.negligible

    def steps(self) -> Iterator[Progress]:
        """Train to the end; the state is consistent after every epoch."""
        while not self.finished:
            generators = Generators(self.seed, self.generator_states)
            epoch = self._one_epoch(generators)
            while True:
                with drawing_from(generators):  # between steps the caller's draws are its own
                    progress = next(epoch, None)
                if progress is None:
                    break
                yield progress

    def _one_epoch(self, generators: Generators) -> Iterator[Progress]:
        start = time.perf_counter()
        s = self.settings
        if s.epochs == 0:  # the model stays as it is, but it is evaluated
            yield Progress(0, 1, 1, self._evaluate(0.0))
            return
        self.begin_epoch()
        order = permutation(self.n).to(self.device).split(s.batch(self.n))
        batches = len(order)
        self.model.train()
        spent = self.spent
        plan = () if spent else self._plan(order)
        rate = plan[-1].rate if plan else self.learning_rate(self.epoch / s.epochs)
        total, made = 0.0, 0  # total of the examples' losses
        for risks in self.make_steps(plan):
            for risk in risks:
                total += risk * order[made].numel()
                made += 1
            if made < batches:
                yield Progress(self.epoch + 1, made, batches)
        self.epoch += 1
        if not spent:
            self.end_epoch(total / self.n)
        self.seconds += time.perf_counter() - start
        evaluation = None
        if self.epoch % s.evaluate_every == 0 or self.epoch == s.epochs:
            evaluation = self._evaluate(rate)
        self.generator_states = generators.states()
        yield Progress(self.epoch, batches, batches, evaluation)

    def _plan(self, order: Sequence[Tensor]) -> tuple[Batch, ...]:
        """Return the steps of an epoch, given the examples of each batch."""
        plan, batches = [], len(order)
        for i, index in enumerate(order):
            done = (self.epoch + i / batches) / self.settings.epochs
            number = self.epoch * batches + i
            plan.append(Batch(index, number, self.learning_rate(done), done))
        return tuple(plan)

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
        """Return the schedule's rate, `done` being the completed fraction of the run."""
        bounds = [self.guide(e) for e in self.history]
        return self.settings.learning_rate * self.schedule.factor(bounds, done)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything the next epoch depends on: tensors on the CPU, and a JSON record."""
        tensors = {f"network.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for i, slots in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{k}": v.clone() for k, v in slots.items()}
        tensors = {name: tensor.to(CPU) for name, tensor in tensors.items()}
        for device, state in self.generator_states.items():
            tensors["generator" if device == "cpu" else f"generator.{device}"] = state
        history = [asdict(e) for e in self.history]
        return tensors, {"epoch": self.epoch, "seconds": self.seconds, "history": history}

    def restore(self, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
        """Continue from what `state()` returned, on the device where the model is now."""
        self.model.load_state_dict(_below(tensors, "network."))
        self.best = {k: v.to(self.device) for k, v in _below(tensors, "best.").items()}
        slots: dict[int, dict[str, Tensor]] = {}
        parameters = list(self.model.parameters())
        for name, tensor in _below(tensors, "optimiser.").items():
            i, key = name.split(".")
            slots.setdefault(int(i), {})[key] = _laid_out(tensor, parameters[int(i)])
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": slots, "param_groups": groups})
        self.generator_states = {"cpu": tensors["generator"]} | _below(tensors, "generator.")
        self.epoch, self.seconds = record["epoch"], record["seconds"]
        self.history = [Evaluation(**e) for e in record["history"]]


def run_to_end(loop: Loop, save: Callable[[], None]) -> Iterator[Progress]:
    """Train to the end, saving after the first epoch, evaluations, and every few seconds.

    Args:
        save: writes a checkpoint; called only where the state is consistent.
    """
    saved = -math.inf
    for progress in loop.steps():
        over = progress.batch == progress.batches
        if over and (progress.evaluation or time.monotonic() - saved > CHECKPOINT_SECONDS):
            save()
            saved = time.monotonic()
        yield progress


def hopeless(history: Sequence[Evaluation], schedule: Schedule, classes: int) -> bool:
    """Return whether the paper's rule ends a run: hardly better than chance after ten epochs."""
    late = [e.risk for e in history if e.epoch >= _HOPELESS_EPOCH]
    return schedule.gives_up and bool(late) and learned_nothing(late[0], classes)


def learned_nothing(risk: float, classes: int) -> bool:
    """Return whether a risk exceeds nine tenths of guessing's, the paper's 0.45 for two classes."""
    return risk > 0.9 * (1 - 1 / classes)


def _laid_out(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor in the memory layout of another of its shape: fused Adam goes by memory."""
    return torch.empty_like(like).copy_(tensor) if tensor.shape == like.shape else tensor


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
