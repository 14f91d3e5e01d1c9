"""The key of a certificate's draws: a hash of posterior and data, which leaves nothing to choose.

A seed could be tried again until the draws are lucky. The hash is taken for a random oracle: its
draws count as independent of everything that was chosen before it. Whoever changes a posterior
until its draws are lucky still cheats, so a certificate assumes that nobody did.
"""

from __future__ import annotations

import hashlib

import numpy as np
from torch import Tensor, nn

from pacbayes.networks.gaussian import gaussians
from pacbayes.networks.network import Network

__all__ = ["draws_key", "outputs_key"]


def draws_key(network: Network, x: Tensor, y: Tensor) -> bytes:
    """Return SHA-256 of every Gaussian of Q in the order of names, and of the bound set.

    Means and logarithms of scales count as float64, features as float32 and labels as int64 class
    indices, all little-endian.
    """
    hasher = _of_posterior(network)
    hasher.update(_bytes(x, "<f4"))
    hasher.update(_bytes(network.task.decode(y), "<i8"))
    return hasher.digest()


def outputs_key(network: nn.Module, x: Tensor, y: Tensor) -> bytes:
    """Return the same for labels that are numbers, which count as float64."""
    hasher = _of_posterior(network)
    hasher.update(_bytes(x, "<f4"))
    hasher.update(_bytes(y, "<f8"))
    return hasher.digest()


def _of_posterior(network: nn.Module) -> hashlib._Hash:
    hasher = hashlib.sha256()
    for _, g in sorted(gaussians(network).items()):
        for tensor in (g.mean, g.log_scale):
            hasher.update(_bytes(tensor, "<f8"))
    return hasher


def _bytes(tensor: Tensor, kind: str) -> memoryview:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=kind).data.cast("B")
