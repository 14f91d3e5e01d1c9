"""How many draws a certificate needs where a block of examples shares each draw of the weights."""

from __future__ import annotations

import hashlib
import math
import time

import torch

from pacbayes import bounds
from pacbayes.devices import CPU
from pacbayes.networks.network import Network
from pacbayes.networks.risk import EmpiricalRisk, keyed_risk

__all__ = ["SECONDS", "planned_draws", "wanted_term"]

SECONDS = 150.0  # for the draws of a certificate, unless told otherwise
_MOST = 10_000  # draws for each example
_BLOCKS, _PILOT = 16, 4  # blocks of 64 examples, and draws of each, of the pilot
_CHECKS = 2.5 / _PILOT  # evaluations that check a module, in units of a block's draws


def wanted_term(risk: float) -> float:
    """Return the Monte-Carlo term to aim at: 0.05 points, or one hundredth of the risk if larger.

    >>> wanted_term(0.2), wanted_term(0.01)
    (0.002, 0.0005)
    """
    return max(0.0005, 0.01 * risk)


def planned_draws(
    network: Network,
    x: torch.Tensor,
    y: torch.Tensor,
    key: bytes,
    delta: float,
    seconds: float = SECONDS,
) -> int:
    """Return T, the draws for each example that make the Monte-Carlo term small enough.

    A pilot estimates risk, variance and speed. Its draws have a key of their own, so that the
    draws of the certificate are independent of the number. If time is short, T is what fits in.

    Args:
        network: in float64 and evaluation mode.
        key: of the certificate's draws.
        delta: of the Monte-Carlo term.
        seconds: time for all draws, at the pilot's speed.
    """
    start = time.perf_counter()
    index = _spread_blocks(len(x))
    pilot = hashlib.sha256(key + b"pilot").digest()
    risk = keyed_risk(network, x[index], y[index], _PILOT, pilot)
    passed = time.perf_counter() - start
    once = passed / (_PILOT * (1 + _CHECKS)) * len(x) / len(index)  # seconds for one draw of all
    affordable = max(2, int(seconds / once) // 2 * 2)
    return min(needed_draws(risk, len(x), delta), affordable)


def _spread_blocks(n: int) -> torch.Tensor:
    """Return the indices of a few blocks of examples, spread over all of them."""
    blocks = torch.arange(n, device=CPU).split(64)
    count = min(_BLOCKS, len(blocks))
    chosen = torch.linspace(0, len(blocks) - 1, count, device=CPU).long().tolist()
    return torch.cat([blocks[i] for i in chosen])


def needed_draws(risk: EmpiricalRisk, n: int, delta: float) -> int:
    """Return the least even T whose Monte-Carlo term is as wanted, by stratified Bernstein."""

    def term(T: int) -> float:
        draws, within = n * T / min(64, n), risk.within or 0.5
        upper = bounds.stratified_bernstein(risk.mean, within, draws / 2, draws, delta)
        return upper - risk.mean

    wanted, low, high = wanted_term(risk.mean), 1, math.ceil(_MOST / 2)  # halves of T
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if term(2 * middle) <= wanted else (middle + 1, high)
    return 2 * low
