"""A sampled value, its log-probability, and the gradient that follows from both."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Draw", "estimate", "leave_one_out", "no_baseline"]


@dataclass(frozen=True)
class Draw:
    """T samples for each of B examples.

    Attributes:
        value: the samples, (T, B) for an output and (T, B, d) for activations. Their autograd graph
            holds the *pathwise* part of the gradient.
        log_prob: log-probability of everything sampled *without* a path, (T, B), or a scalar zero
            if every sample has one.
    """

    value: Tensor
    log_prob: Tensor


def estimate(draw: Draw, baseline: Tensor | float = 0.0) -> Tensor:
    r"""Join value and score into one tensor with the right value and an unbiased gradient.

    Forward this is the sampled value v; backward it is ∇v + (v − b)·∇log p, whose expectation is
    ∇E[v] for every baseline b independent of the sample it is subtracted from. Pathwise,
    REINFORCE and marginalised REINFORCE (eq. local_reinforce) differ only in what a draw counts
    as log p.

    Returns:
        (T, B), to be averaged over T.
    """
    v, log_p = draw.value, draw.log_prob
    return v + (v.detach() - baseline) * (log_p - log_p.detach())


def no_baseline(value: Tensor) -> float:
    """b = 0: plain REINFORCE."""
    return 0.0


def leave_one_out(value: Tensor) -> Tensor:
    r"""Baseline b_t = Σ_{s≠t} v_s / (T − 1): the other samples of the same example.

    Independent of sample t, hence free of bias (Kool, van Hoof & Welling 2019).
    """
    T = value.shape[0]
    if T < 2:
        raise ValueError(f"leave-one-out needs at least 2 samples, got {T}")
    v = value.detach()
    return (v.sum(0) - v) / (T - 1)
