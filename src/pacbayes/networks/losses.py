"""Losses of a prediction: labels y ∈ {−1, +1} of two classes, or indices of more."""

from __future__ import annotations

from torch import Tensor

__all__ = ["linear", "missed", "wrong_class", "zero_one"]


def linear(prediction: Tensor, y: Tensor) -> Tensor:
    """ℓ_lin(F, y) = ½(1 − yF); equals the zero-one loss where F ∈ {−1, +1}."""
    return 0.5 * (1 - y * prediction)


def zero_one(prediction: Tensor, y: Tensor) -> Tensor:
    """ℓ_01(F, y) = 1{yF ≤ 0}: a tied vote counts as an error."""
    return (y * prediction <= 0).to(y.dtype)


def missed(probabilities: Tensor, y: Tensor) -> Tensor:
    """1 − P(class y), of probabilities (…, B, k): the linear loss for more than two classes."""
    return 1 - _own(probabilities, y).squeeze(-1)


def wrong_class(probabilities: Tensor, y: Tensor) -> Tensor:
    """1{the largest probability is not y's}; a tie counts as an error."""
    as_large = (probabilities >= _own(probabilities, y)).sum(-1)  # y itself among them
    return (as_large > 1).to(probabilities.dtype)


def _own(probabilities: Tensor, y: Tensor) -> Tensor:
    index = y.expand(probabilities.shape[:-1]).unsqueeze(-1)
    return probabilities.gather(-1, index)
