"""The bodies of convolutions and of other modules, in plain operations.

A module is evaluated at weights that are constants of the graph, or that noise makes, which a batch
shares.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from pacbayes.networks.bodies import Deterministic
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.gaussian import gaussians

__all__ = ["DrawnModule", "OneModule", "weights_at"]

_PREFIX = "body.posterior."


class OneModule(nn.Module):
    """Activations of a module at given weights; of a deterministic one, at its own.

    Args:
        weights: by the names of their Gaussians in the network.
        dtype: of the module's arithmetic.
    """

    def __init__(
        self,
        body: Evaluated | Deterministic,
        weights: Mapping[str, Tensor],
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.module, self.dtype = copy.deepcopy(body.module), dtype
        places = body.places if isinstance(body, Evaluated) else {}
        for name, own in places.items():
            for place in own:
                owner, _, last = place.rpartition(".")
                constant = nn.Parameter(weights[_PREFIX + name].clone(), requires_grad=False)
                self.module.get_submodule(owner)._parameters[last] = constant
        self.module.to(dtype).eval()

    def forward(self, x: Tensor, noise: Sequence[Tensor] = ()) -> Tensor:
        a: Tensor = self.module(x.to(self.dtype))
        return a.double()


class DrawnModule(nn.Module):
    """Activations of a module at weights that noise (d,) draws from Q for the whole batch."""

    def __init__(self, body: Evaluated, dtype: torch.dtype) -> None:
        super().__init__()
        self.module, self.dtype = copy.deepcopy(body.module).to(dtype), dtype
        self.places = {name: tuple(places) for name, places in body.places.items()}
        self.shapes: list[tuple[int, ...]] = []
        for i, g in enumerate(gaussians(body.posterior).values()):
            self.shapes.append(tuple(g.mean.shape))
            self.register_buffer(f"mean_{i}", g.mean.detach().clone())
            self.register_buffer(f"deviation_{i}", g.log_scale.detach().exp())

    @property
    def size(self) -> int:
        """Number of weights that are drawn."""
        return sum(map(math.prod, self.shapes))

    def forward(self, x: Tensor, noise: Sequence[Tensor]) -> Tensor:
        every: dict[str, Tensor] = {}
        for places, weight in zip(self.places.values(), self._drawn(noise[0]), strict=True):
            every |= dict.fromkeys(places, weight.to(self.dtype))
        a: Tensor = functional_call(self.module, every, (x.to(self.dtype),), tie_weights=False)
        return a.double()

    def _drawn(self, noise: Tensor) -> list[Tensor]:
        parts = noise.split([math.prod(shape) for shape in self.shapes])
        return [
            getattr(self, f"mean_{i}") + getattr(self, f"deviation_{i}") * part.view(shape)
            for i, (part, shape) in enumerate(zip(parts, self.shapes, strict=True))
        ]


def weights_at(body: Evaluated, noise: Tensor) -> dict[str, Tensor]:
    """Return the weights that noise (d,) draws, by their names in the body."""
    weights, start = {}, 0
    for name, g in gaussians(body.posterior).items():
        own = noise[start : start + g.mean.numel()].reshape(g.mean.shape)
        weights[name] = (g.mean + g.log_scale.exp() * own).detach()
        start += g.mean.numel()
    return weights
