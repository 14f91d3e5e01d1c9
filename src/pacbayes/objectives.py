"""What training minimises: the paper's fix-λ and optim-λ."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pacbayes.bounds import ALPHA

__all__ = ["catoni_objective", "fix_lambda"]


def fix_lambda(risk: Tensor, kl: Tensor, lam: float) -> Tensor:
    """R_lin + KL/λ (eq. basic_objective): the weights' objective, at a fixed or a current λ."""
    return risk + kl / lam


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
