"""Draws of a network's output at given places, in float64: PyTorch's way, the reference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pacbayes.devices import in_float64
from pacbayes.networks.activations import FUNCTIONS, sign_of
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.draws import Draw
from pacbayes.networks.heads import aggregated
from pacbayes.networks.network import Network
from pacbayes.networks.places import Places

__all__ = ["Sampler", "TorchSampler", "final_pair", "is_placed"]


class Sampler(Protocol):
    """Draw outputs of a network at places; its last layer is integrated whatever the head.

    Attributes:
        rows: T·B that one call should have at most, to keep memory flat.
        steady: whether the bits of a draw depend neither on threads nor on the examples beside it.
    """

    rows: int
    steady: bool

    def losses(self, x: Tensor, y: Tensor, places: Places) -> Tensor:
        """Return P(error) given the label, (T, B)."""

    def outputs(self, x: Tensor, places: Places) -> Tensor:
        """Return draws of the output, (T, B) or (T, B, k)."""


class TorchSampler:
    """The draws of PyTorch, layer by layer, of a copy of the network."""

    rows, steady = 2000, False

    def __init__(self, network: Network) -> None:
        if not is_placed(network):
            raise ValueError("a body of your own draws weights for a batch, not units by place")
        network.seal_prior()
        self._network = in_float64(copy.deepcopy(network))

    def losses(self, x: Tensor, y: Tensor, places: Places) -> Tensor:
        """Return the losses of draws at their places."""
        return self._network.loss(self.outputs(x, places), y)

    @torch.no_grad()
    def outputs(self, x: Tensor, places: Places) -> Tensor:
        """Return the outputs of draws at their places."""
        body, last = self._network.body, self._network.layer
        a, pair = x.to(last.bias.mean), 0
        if not isinstance(body, Dense):  # nothing is drawn
            return aggregated(last, body.draw(a, places.draws)).value
        for layer, rule in zip(body.layers, body.rules, strict=True):
            mean, deviation = layer.moments(a)
            a = _drawn(FUNCTIONS[rule], mean, deviation, places, pair)
            pair += (mean.shape[-1] + 1) // 2
        return aggregated(last, Draw(a, a.new_zeros(()))).value


def _drawn(
    function: Callable[[Tensor], Tensor],
    mean: Tensor,
    deviation: Tensor,
    places: Places,
    pair: int,
) -> Tensor:
    """Return T activations: of signs +1 where U < Φ(mean/deviation), of others at a normal z."""
    units = mean.shape[-1]
    if function is sign_of:
        uniform = torch.from_numpy(np.ascontiguousarray(places.uniforms(pair, units))).to(mean)
        return torch.where(uniform < torch.special.ndtr(mean / deviation), 1.0, -1.0).to(mean)
    noise = torch.from_numpy(np.ascontiguousarray(places.normals(pair, units))).to(mean)
    return function(torch.addcmul(mean, deviation, noise))


def is_placed(network: Network) -> bool:
    """Return whether a network's draws have places: those of dense and deterministic bodies."""
    return isinstance(network.body, Dense | Deterministic)


def final_pair(network: Network) -> int:
    """Return the pair after all hidden units, where a label is drawn."""
    layers = network.body.layers if isinstance(network.body, Dense) else []
    return sum((len(layer.bias.mean) + 1) // 2 for layer in layers)
