"""What training minimises: the paper's fix-λ and optim-λ, and the small-kl bound itself."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pacbayes.bounds import ALPHA, kl_inverse
from pacbayes.networks.gaussian import gaussians

__all__ = ["catoni_objective", "fix_lambda", "small_kl_lambda", "small_kl_objective"]


def fix_lambda(risk: Tensor, network: nn.Module, coefficient: float) -> None:
    """Leave the gradient of R_lin + coefficient·KL (eq. basic_objective, 1/λ) in every parameter.

    The KL's part is written out, (μ − μ₀)/σ₀² and σ²/σ₀² − 1 in ln σ: through autograd it would
    cost as much as the rest of a small step.
    """
    risk.backward()
    with torch.no_grad():
        for g in gaussians(network).values():
            s0 = g.prior_log_scale
            _add(g.mean, g.mean - g.prior_mean, coefficient * math.exp(-2 * s0.item()))
            if isinstance(g.log_scale, nn.Parameter):
                _add(g.log_scale, (2 * (g.log_scale - s0)).expm1_(), coefficient)


def _add(p: nn.Parameter, slope: Tensor, factor: float) -> None:
    if not p.requires_grad:
        return
    p.grad = slope * factor if p.grad is None else p.grad.add_(slope, alpha=factor)


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
