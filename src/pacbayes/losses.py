"""Losses of a prediction against labels y ∈ {−1, +1}."""

from __future__ import annotations

from torch import Tensor

__all__ = ["linear", "zero_one"]


def linear(prediction: Tensor, y: Tensor) -> Tensor:
    """ℓ_lin(F, y) = ½(1 − yF); equals the zero-one loss where F ∈ {−1, +1}."""
    return 0.5 * (1 - y * prediction)


def zero_one(prediction: Tensor, y: Tensor) -> Tensor:
    """ℓ_01(F, y) = 1{yF ≤ 0}: a tied vote counts as an error."""
    return (y * prediction <= 0).to(y.dtype)
