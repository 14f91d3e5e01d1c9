"""Training objectives: R_lin + KL/λ at a fixed λ, at a learned one, or at the small-kl bound's.

An objective owns λ. It says which steps move λ instead of the weights, and how λ moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes.bounds import ALPHA, kl_inverse
from pacbayes.choices import Objective as ObjectiveName
from pacbayes.devices import CPU
from pacbayes.networks.families.diagonal import add_slope
from pacbayes.networks.posterior import gaussians
from pacbayes.settings import Settings

__all__ = [
    "OBJECTIVES",
    "FixLambda",
    "Objective",
    "OptimLambda",
    "SmallKl",
    "backward_with_kl",
    "catoni_objective",
    "small_kl_lambda",
    "small_kl_objective",
]


class Objective:
    """R_lin + KL/λ, the paper's basic objective, with λ = n unless the settings say otherwise.

    Args:
        n: examples that the bound is on.
    """

    def __init__(self, settings: Settings, n: int) -> None:
        self.settings, self.n = settings, n
        self.log_lambda = _exactly(math.log(settings.lam or n))

    @property
    def lam(self) -> float:
        """The λ of the objective now."""
        return self.log_lambda.exp().item()

    def is_lambda_step(self, number: int) -> bool:
        """Return whether a step is on λ rather than on the weights."""
        return False

    def lambda_step(self, risk: Tensor, kl: Tensor) -> None:
        """Move λ, given a batch's risk and KL(Q|P)."""

    def end_epoch(self, risk: float, kl: Callable[[], Tensor]) -> None:
        """Move λ after an epoch, given the mean risk of its batches."""


class FixLambda(Objective):
    """The paper's fix-λ: λ stays where it starts."""


class OptimLambda(Objective):
    """The paper's optim-λ: every other step is gradient descent of Catoni's bound in ln λ."""

    def is_lambda_step(self, number: int) -> bool:
        return number % 2 == 1

    def lambda_step(self, risk: Tensor, kl: Tensor) -> None:
        log_lambda = self.log_lambda.clone().requires_grad_()
        bound = catoni_objective(risk, kl, self.n, self.settings.delta, log_lambda)
        (slope,) = torch.autograd.grad(bound, log_lambda)
        moved = self.log_lambda - self.settings.lambda_rate * slope
        self.log_lambda = moved.clamp(min=1e-6)  # the theorem has λ > 1


class SmallKl(Objective):
    """After every epoch λ becomes the one at which R + KL/λ descends like the small-kl bound."""

    def end_epoch(self, risk: float, kl: Callable[[], Tensor]) -> None:
        lam = small_kl_lambda(risk, kl().item(), self.n, self.settings.delta)
        self.log_lambda = _exactly(math.log(lam))


def _exactly(value: float) -> Tensor:
    """Return a number in float64 on the CPU, where λ stays whatever the network's device."""
    return torch.tensor(value, dtype=torch.float64, device=CPU)


OBJECTIVES: dict[ObjectiveName, type[Objective]] = {
    "fix-lambda": FixLambda,
    "optim-lambda": OptimLambda,
    "small-kl": SmallKl,
}


def backward_with_kl(risk: Tensor, network: nn.Module, coefficient: float) -> None:
    """Leave the gradient of R_lin + coefficient·KL (eq. basic_objective, 1/λ) in parameters."""
    risk.backward()
    for g in gaussians(network).values():
        add_slope(g, coefficient)


def catoni_objective(
    risk: Tensor, kl: Tensor, n: int, delta: float, log_lambda: Tensor, alpha: float = ALPHA
) -> Tensor:
    r"""The main theorem's bound as a function of ln λ: the λ-step of optim-λ.

    Same formula as `bounds.catoni`, in tensors and without rounding. ln λ rather than λ, because
    λ ≈ 6·10⁴ would not move at the paper's rate of 10⁻⁴.
    """
    lam = log_lambda.exp()
    complexity = kl - math.log(delta) + 2 * torch.log(2 + log_lambda / math.log(alpha))
    t = risk + alpha / lam * complexity
    return torch.expm1(-lam / n * t) / torch.expm1(-lam / n)


def small_kl_objective(risk: Tensor, kl: Tensor, n: int, delta: float) -> Tensor:
    r"""kl⁻¹(R_lin, (KL + ln(2√n/δ))/n): the small-kl bound, differentiable in risk and KL."""
    complexity = (kl + math.log(2 * math.sqrt(n) / delta)) / n
    bound: Tensor = _KlInverse.apply(risk.double(), complexity.double())
    return bound


class _KlInverse(torch.autograd.Function):
    """p = kl⁻¹(q, c), whose slopes follow from kl(q|p) = c.

    ∂p/∂c = p(1 − p)/(p − q) and ∂p/∂q = ln[p(1 − q)/(q(1 − p))]·p(1 − p)/(p − q).
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, c: Tensor) -> Tensor:
        p = q.new_tensor(kl_inverse(q.item(), c.item()))
        ctx.save_for_backward(q, p)
        return p

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        q, p = ctx.saved_tensors
        tiny = torch.finfo(q.dtype).tiny
        slope = p * (1 - p) / (p - q).clamp(min=tiny)
        odds = (p * (1 - q)).clamp(min=tiny) / (q * (1 - p)).clamp(min=tiny)
        return grad * slope * odds.log(), grad * slope


def small_kl_lambda(risk: float, kl: float, n: int, delta: float) -> float:
    r"""The λ at which R + KL/λ descends in the direction of the small-kl bound.

    The ratio of the bound's slopes in risk and KL, λ = n·ln[p(1 − q)/(q(1 − p))] with q the risk
    and p the bound: where the KL is small λ exceeds n, and nothing need be guessed.
    """
    q, c = min(max(risk, 1e-9), 1 - 1e-9), (kl + math.log(2 * math.sqrt(n) / delta)) / n
    p = min(kl_inverse(q, c), 1 - 1e-12)
    return max(1.0 + 1e-6, n * math.log(p * (1 - q) / (q * (1 - p))))
