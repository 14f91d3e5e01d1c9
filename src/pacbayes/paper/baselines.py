r"""The models that the paper compares with, mlp and PBGNet, and how they are trained.

PBGNet (Letarte, Germain, Guedj & Laviolette 2019) is as in its published code. Each layer
aggregates binary activations given the *averaged* activations of the layer below. This is a tree of
networks, and its KL counts a layer once for each occurrence in the tree. As in the published code,
every layer has a bias that the KL includes and the denominator omits.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from pacbayes.bounds import catoni_c
from pacbayes.data.tasks import Binary, check_examples, linear
from pacbayes.engine.interface import Activation, Estimator
from pacbayes.engine.library import Engine, unfit
from pacbayes.networks.activations import Draw, estimate
from pacbayes.randomness import generator_on, redirected, uniform
from pacbayes.settings import Settings
from pacbayes.training.loop import CONSTANT, EVALUATIONS, Evaluation, Loop, Schedule

__all__ = ["MLP", "Fitting", "MLPFitting", "PBGFitting", "PBGNet"]

_ROWS = 20_000  # rows (T·B) in one block of an evaluation


class Fitting(Loop):
    """Train with Adam on `objective`, with the same protocol as every other run.

    Args:
        model: returns F ∈ [−1, 1].
        x: examples, (n, d).
        y: labels −1/+1, (n,).
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        settings: Settings,
        schedule: Schedule | None = None,
    ) -> None:
        check_examples(x, y, Binary())
        super().__init__(model, len(x), settings, schedule)
        self.x, self.y = x, y

    @abstractmethod
    def output(self, x: Tensor, T: int) -> Tensor:
        """Return F̂(x), (B,), the mean of T samples if the model samples."""

    @abstractmethod
    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the objective that a step minimises."""

    @property
    def biased(self) -> bool:
        """Whether the expected output depends on T; it is then evaluated at the T of training."""
        return False

    @property
    def evaluation_samples(self) -> int:
        """T of an evaluation."""
        return self.settings.samples if self.biased else self.settings.evaluation_samples

    @property
    def lam(self) -> float:
        return 1.0

    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        loss = self.objective(self.x[index], self.y[index])
        loss.backward()
        self.optimiser.step()
        return loss.item()

    @torch.no_grad()
    def outputs(self, x: Tensor, T: int) -> Tensor:
        """Return F̂(x) for many examples, computed in blocks."""
        return torch.cat([self.output(block, T) for block in x.split(max(1, _ROWS // T))])

    def measured_risk(self) -> float:
        F = self.outputs(self.x, self.evaluation_samples)
        return linear(F.double(), self.y.double()).mean().item()


class MLP(nn.Sequential):
    """Deterministic network x ↦ tanh(w·relu(… relu(W₁x + b₁) …) + b)."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        layers: list[nn.Module] = []
        with redirected():  # nn.Linear draws its own weights
            for d, e in pairwise([inputs, *widths]):
                layers += [nn.Linear(d, e), nn.ReLU()]
            layers.append(nn.Linear([inputs, *widths][-1], 1))
        super().__init__(*layers, nn.Tanh(), nn.Flatten(0))


class MLPFitting(Fitting):
    """Without a bound: the rate is constant, and the epoch with the least training loss is best."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, settings: Settings) -> None:
        super().__init__(model, x, y, settings, CONSTANT)

    def output(self, x: Tensor, T: int) -> Tensor:
        value: Tensor = self.model(x)
        return value

    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        return linear(self.output(x, 1), y).mean()

    def divergence(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def bound(self, risk: float, kl: float) -> float:
        return 1.0


class PBGNet(nn.Module):
    """PBGNet with output F(x) ∈ [−1, 1].

    Weights have unit variance and mean W; the prior's mean is the initial value U.

    Args:
        inputs: number of features.
        widths: widths of the hidden layers, one to three layers in the paper's experiments.
    """

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        sizes = list(pairwise([inputs, *widths, 1]))
        self.weights = nn.ParameterList(torch.empty(e, d) for d, e in sizes)
        self.biases = nn.ParameterList(torch.zeros(e) for _, e in sizes)
        for i, W in enumerate(self.weights):
            nn.init.xavier_normal_(W, generator=generator_on(W.device))
            self.register_buffer(f"prior_{i}", W.detach().clone())
        self.log_C = nn.Parameter(torch.zeros(()))  # learned with the weights

    def _first(self, x: Tensor) -> Tensor:
        """Return erf((W₁x + b₁)/(√2‖x‖)), which is exact."""
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-12)
        return torch.erf((x @ self.weights[0].T + self.biases[0]) / (math.sqrt(2) * norm))

    def _above(self, i: int, s: Tensor) -> Tensor:
        """Return erf((Ws + b)/√(2d)) for signs s, (…, d)."""
        d = s.shape[-1]
        return torch.erf((s @ self.weights[i].T + self.biases[i]) / math.sqrt(2 * d))

    def forward(self, x: Tensor, T: int) -> Tensor:
        r"""Return F̂(x), (B,), from T sign vectors for every layer with P(s_i = 1) = ½ + ½F_i.

        In the backward pass W and b get the derivative of erf. F of the layer below gets the score
        gradient, the mean over T of erf(·)·s_i / 2p(s_i), without a baseline.
        """
        F = self._first(x)
        for i in range(1, len(self.weights)):
            s = sample_signs(F.detach(), T)  # (T, B, d)
            log_prob = torch.log(0.5 + 0.5 * s * F).sum(-1, keepdim=True)  # (T, B, 1)
            F = estimate(Draw(self._above(i, s), log_prob)).mean(0)
        return F.squeeze(-1)

    def exact(self, x: Tensor) -> Tensor:
        """Return F(x) by summing over all 2^d sign vectors of every layer.

        The weight of a sign vector s is Π(½ + ½F_i·s_i).
        """
        F = self._first(x)
        for i in range(1, len(self.weights)):
            d = F.shape[-1]
            if d > 16:
                raise ValueError(f"the exact sum allows at most 16 units in a layer, got {d}")
            states = F.new_tensor(list(itertools.product((-1.0, 1.0), repeat=d)))  # (2^d, d)
            chance = (0.5 + 0.5 * F.unsqueeze(-2) * states).prod(-1)  # (B, 2^d)
            F = chance @ self._above(i, states)
        return F.squeeze(-1)

    def kl(self) -> Tensor:
        r"""Return ½(‖w_L − u_L‖² + Σ_{k<L} (Π_{i>k} d_i)·‖W_k − U_k‖²) with d_L = 1.

        Biases are counted in the same way as the weights of their layer.
        """
        total = self.log_C.new_zeros((), dtype=torch.float64)
        copies = 1  # how often the layer occurs in the tree
        for i in reversed(range(len(self.weights))):
            W, b = self.weights[i] - self.get_buffer(f"prior_{i}"), self.biases[i]
            squares = (t.square().sum(dtype=torch.float64) for t in (W, b))
            total = total + 0.5 * copies * sum(squares)
            copies *= self.weights[i].shape[0]
        return total


def sample_signs(F: Tensor, T: int) -> Tensor:
    """Return T draws of signs ±1 with P(1) = ½ + ½F."""
    return 2 * (uniform((T, *F.shape), F) < 0.5 + 0.5 * F).to(F) - 1


def native_engine(model: PBGNet, T: int) -> Engine:
    """Return a C engine that computes the risk and its gradient, for float32 on a CPU."""
    fixed = torch.zeros(())  # every log scale is ln 1
    layers = zip(model.weights, model.biases, strict=True)
    parameters = [t for W, b in layers for t in (W, b, fixed, fixed)]
    widths = [model.weights[0].shape[1], *(len(b) for b in model.biases)]
    return Engine(widths, Activation.SIGN, Estimator.TREE, T, parameters, learned=False)


class PBGFitting(Fitting):
    """Minimise Catoni's bound of the linear loss with a learned C.

    Twice that bound holds for the 0-1 loss. The learning rate follows PBGNet's own bound, which
    improves also where twice that is vacuous.
    """

    model: PBGNet

    def __init__(self, model: PBGNet, x: Tensor, y: Tensor, settings: Settings) -> None:
        super().__init__(model, x, y, settings)
        why = unfit([x], model.parameters())
        if not (why or x.any(1).all()):  # PBGNet divides by the norm of an example
            why = "the native engine cannot train PBGNet on an example whose features are all zero"
        if why and settings.engine == "native":
            raise ValueError(why)
        native = settings.engine != "torch" and not why
        self.native = native_engine(model, settings.samples) if native else None
        self.evaluator = native_engine(model, self.evaluation_samples) if native else None

    @property
    def biased(self) -> bool:
        """With several hidden layers: a mean of T samples feeds the nonlinear layer above."""
        return len(self.model.biases) > 2

    def output(self, x: Tensor, T: int) -> Tensor:
        F: Tensor = self.model(x, T)
        return F

    def objective(self, x: Tensor, y: Tensor) -> Tensor:
        return self._catoni(linear(self.output(x, self.settings.samples), y).mean())

    def _catoni(self, risk: Tensor) -> Tensor:
        C = self.model.log_C.exp()
        price = (self.divergence() + self._confidence()) / self.n
        return torch.expm1(-C * risk - price) / torch.expm1(-C)

    def _confidence(self) -> float:
        return math.log(2 * math.sqrt(self.n) / self.settings.delta)

    def step(self, index: Tensor, number: int, rate: float, done: float) -> float:
        if self.native is None:
            return super().step(index, number, rate, done)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        total = self.native.loss_and_grad(self.x, self.y, index, self.seed, number)
        risk = torch.tensor(total / len(index), dtype=torch.float64, requires_grad=True)
        objective = self._catoni(risk)
        (slope,) = torch.autograd.grad(objective, risk, retain_graph=True)
        for p in (*self.model.weights, *self.model.biases):
            p.grad = slope.to(p) * p.grad  # backward() below adds the gradient of the KL
        objective.backward()
        self.optimiser.step()
        return objective.item()

    @property
    def negligible(self) -> float:
        """Return the largest change of a weight that does not matter.

        It is 1/4000 of a weight's standard deviation, divided by √copies because the KL counts
        every copy of the first layer.
        """
        copies = math.prod(len(b) for b in self.model.biases[1:])
        return 2.5e-4 / math.sqrt(copies)

    def measured_risk(self) -> float:
        if self.evaluator is None:
            return super().measured_risk()
        everything, step = torch.arange(self.n), EVALUATIONS + self.epoch
        return self.evaluator.loss(self.x, self.y, everything, self.seed, step) / self.n

    @property
    def lam(self) -> float:
        return self.model.log_C.exp().item()

    def divergence(self) -> Tensor:
        return self.model.kl()

    def bound(self, risk: float, kl: float) -> float:
        """Return the bound of the 0-1 loss: twice the bound of the linear loss."""
        return min(1.0, 2 * catoni_c(risk, kl, self.n, self.settings.delta, C=self.lam))

    def guide(self, evaluation: Evaluation) -> float:
        """Return PBGNet's own bound, of the linear loss, without a limit at 1."""
        e, C = evaluation, evaluation.lam
        return math.expm1(-C * e.risk - (e.kl + self._confidence()) / self.n) / math.expm1(-C)
