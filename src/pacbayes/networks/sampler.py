"""Draws of a network's output at given places, in float64: PyTorch's way, the reference.

Random numbers each have a place: of an example, a draw and a unit, under a key. Philox4x32-10
(Salmon et al. 2011) turns the counter (pair of units, draw, place of the example: two words) into
two words of 64 bits, one for each unit of the pair. The first 52 bits n of a word make the uniform
number (n + ½)/2⁵²; a pair (U, V) makes two normal numbers by Box and Muller's rule,
√(−2 ln U)·(cos 2πV, sin 2πV). Any block of examples, draws and units can be drawn alone, in any
order and by anyone: the native engine draws the same numbers, and `redraw` does so for `verify`.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pacbayes.devices import in_float64
from pacbayes.networks.activations import FUNCTIONS, Draw, sign_of
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.heads import aggregated
from pacbayes.networks.network import Network
from pacbayes.randomness import stream

__all__ = ["Places", "Sampler", "TorchSampler", "final_pair", "is_placed", "philox"]

Array = NDArray[Any]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


@dataclass(frozen=True)
class Places:
    """The places of some examples' numbers at some draws.

    Attributes:
        key: 64 bits.
        examples: a 64-bit number for each of B examples.
        draws: T, how many.
        first: number of the first draw.
    """

    key: int
    examples: Array
    draws: int
    first: int = 0

    @classmethod
    def of_set(cls, key: bytes, numbers: range, draws: int, first: int = 0) -> Places:
        """Return the places of a bound set: an example's number, beside a part of the key."""
        most = 1 << 32
        if numbers.stop > most:
            raise ValueError(f"a certificate can have at most {most} examples, got {numbers.stop}")
        words = np.frombuffer(key.ljust(12, b"\0")[:12], "<u4").astype(np.uint64)
        examples = np.arange(numbers.start, numbers.stop, dtype=np.uint64) | words[2] << _HALF
        return cls(int(words[0] | words[1] << _HALF), examples, draws, first)

    @classmethod
    def of_content(cls, x: Tensor, seed: int, draws: int) -> Places:
        """Return places that follow from a seed and the examples themselves.

        Draws are then fresh for every new example, independent of its batch, and the same when the
        same example comes again.
        """
        key = stream(seed, "prediction")
        start = hashlib.sha256(key.to_bytes(8, "little"))
        digests = bytearray()
        for row in np.ascontiguousarray(x.detach().cpu().numpy()).reshape(len(x), -1):
            hasher = start.copy()
            hasher.update(row.data)
            digests += hasher.digest()[:8]
        return cls(key, np.frombuffer(bytes(digests), "<u8").astype(np.uint64), draws)

    def __len__(self) -> int:
        return len(self.examples)

    def uniforms(self, pair: int, units: int) -> Array:
        """Return a number in (0, 1) for each draw, example and unit, (T, B, units).

        Args:
            pair: number of the first pair of units; `units` is rounded up to whole pairs.
        """
        pairs = np.arange(pair, pair + (units + 1) // 2, dtype=np.uint64)
        draws = np.arange(self.first, self.first + self.draws, dtype=np.uint64)
        examples = self.examples[:, None]
        words = philox(self.key, pairs, draws[:, None, None], examples & _LOW, examples >> _HALF)
        n = (np.stack(words, -1) >> np.uint64(12)).astype(float)
        return np.asarray((n + 0.5) * 2.0**-52).reshape(self.draws, len(self), -1)[..., :units]

    def normals(self, pair: int, units: int) -> Array:
        """Return a standard normal number for each draw, example and unit, (T, B, units)."""
        u = self.uniforms(pair, units + units % 2)
        radius, angle = np.sqrt(-2 * np.log(u[..., ::2])), math.tau * u[..., 1::2]
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
        return np.asarray(pairs.reshape(u.shape)[..., :units])


def philox(key: int, *counter: Array) -> tuple[Array, Array]:
    """Return two 64-bit words of Philox4x32-10 for each counter of four 32-bit words."""
    x0, x1, x2, x3 = np.broadcast_arrays(*counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0, x1 = p1 >> _HALF ^ x1 ^ np.uint64(k0), p1 & _LOW
        x2, x3 = p0 >> _HALF ^ x3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return x0 | x1 << _HALF, x2 | x3 << _HALF


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
