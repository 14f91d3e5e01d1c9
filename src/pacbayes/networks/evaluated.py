"""Any module as a body: Q is over its parameters, and it is only evaluated at draws from Q."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from pacbayes.data.foreign import apart, ask
from pacbayes.networks.draws import Draw
from pacbayes.networks.gaussian import Gaussian, gaussians
from pacbayes.networks.local import LocalDraws
from pacbayes.randomness import integer

__all__ = ["Evaluated", "check_activations", "place", "private"]

_CLOSE = {torch.float32: 1e-4, torch.float64: 1e-9}  # relative rounding in batches of other sizes


class Evaluated(nn.Module):
    """A deterministic module whose trainable parameters are Gaussian; a batch shares their draw.

    The module's own parameters are taken out: θ is drawn here, and the module runs as an ordinary
    function at θ. It stays in evaluation mode. With gradients, linear maps and convolutions draw
    locally (`LocalDraws`); without, every draw is one from Q. Frozen parameters and buffers stay
    as they are, outside Q.

    Args:
        module: returns activations (B, d); it is copied.
        scale: prior standard deviation of every parameter.
        learned_scale: whether Q has a trainable standard deviation for every parameter.
    """

    freshness: Literal["per-batch"] = "per-batch"

    def __init__(
        self, module: nn.Module, *, scale: float = 1.0, learned_scale: bool = False
    ) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).eval()
        self.posterior = nn.Module()
        self.places: dict[str, list[str]] = {}  # of every Gaussian's draw in the module
        first: dict[int, str] = {}
        for name, p in list(self.module.named_parameters(remove_duplicate=False)):
            if not p.requires_grad:
                continue
            own = first.setdefault(id(p), name)
            self.places.setdefault(own, []).append(name)
            if own == name:
                g = Gaussian(*p.shape, scale=scale, learned_scale=learned_scale, mean=p)
                place(self.posterior, name, g)
        for name in (name for names in self.places.values() for name in names):
            owner, _, last = name.rpartition(".")
            self.module.get_submodule(owner)._parameters[last] = None

    def train(self, mode: bool = True) -> Evaluated:
        super().train(mode)
        self.module.eval()
        return self

    def at(
        self, x: Tensor, weights: Mapping[str, Tensor], module: nn.Module | None = None
    ) -> Tensor:
        """Return the module's activations, (B, d), at weights by the names of their Gaussians.

        Args:
            module: a private copy of the module, to call instead.
        """
        called = self.module if module is None else module
        # With gradients, `LocalDraws` must find the very tensors that were drawn.
        given = weights if torch.is_grad_enabled() else apart(dict(weights))
        every = {place: given[name] for name, places in self.places.items() for place in places}
        a: Tensor = ask(lambda own: functional_call(called, every, (own,), tie_weights=False), x)
        return check_activations(a, len(x))

    def checked(
        self, x: Tensor, weights: Mapping[str, Tensor], module: nn.Module | None = None
    ) -> Tensor:
        """Return the same; refuse a module with a memory, or one that mixes the examples."""
        module = private(self.module) if module is None else module
        before = [(id(b), b._version) for b in module.buffers()]
        a = self.at(x, weights, module)
        if before != [(id(b), b._version) for b in module.buffers()]:
            raise ValueError(
                "the module changes its buffers when it is evaluated; predictions must not depend "
                "on earlier ones: leave out its running statistics or counters"
            )
        half = (len(x) + 1) // 2
        _compare(a[-1:], self.at(x[-1:], weights, module))
        _compare(a.flip(0)[:half], self.at(x.flip(0)[:half], weights, module))
        return a

    def draw(self, x: Tensor, T: int) -> Draw:
        """Draw T outputs for each example."""
        if torch.is_grad_enabled():
            a = torch.stack([self._locally_drawn(x) for _ in range(T)])
        else:
            a = self.draw_with(x, T, np.random.default_rng(integer(2**63 - 1)))
        return Draw(a, a.new_zeros(()))

    def draw_with(self, x: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        """Return activations at T draws that the batch shares, (T, B, d), without a gradient."""
        draws, module = [], private(self.module)
        for t in range(T):
            evaluate = self.at if t else self.checked
            draws.append(evaluate(x, self._drawn(generator), module))
        return torch.stack(draws)

    def _locally_drawn(self, x: Tensor) -> Tensor:
        every = gaussians(self.posterior)
        weights = {name: g.sample() for name, g in every.items()}
        with LocalDraws([(weights[name], g) for name, g in every.items()]):
            return self.at(x, weights)

    def _drawn(self, generator: np.random.Generator) -> dict[str, Tensor]:
        weights = {}
        for name, g in gaussians(self.posterior).items():
            noise = torch.from_numpy(np.asarray(generator.standard_normal(g.mean.shape)))
            weights[name] = (g.mean + g.log_scale.exp() * noise.to(g.mean)).detach()
        return weights


def check_activations(a: Tensor, examples: int) -> Tensor:
    """Return a body's activations; raise ValueError unless they are a row for each example."""
    if a.dim() != 2 or len(a) != examples:
        raise ValueError(
            f"a body must return activations of shape ({examples}, d) for {examples} examples, got "
            f"{tuple(a.shape)}; end it with nn.Flatten() or a mean over positions"
        )
    return a


def private(module: nn.Module) -> nn.Module:
    """Return a copy of a module on the same tensors.

    To call a module at other weights they are put into it for that time. In a copy, no other thread
    that shares the network sees them.
    """
    tensors = (*module.parameters(), *module.buffers())
    return copy.deepcopy(module, {id(t): t for t in tensors})


def _compare(together: Tensor, apart: Tensor) -> None:
    tolerance = _CLOSE.get(apart.dtype, 1e-2) * together.abs().max().clamp(min=1e-30)
    if not ((together - apart).abs() <= tolerance).all():
        raise ValueError(
            "the module returns different activations for an example alone or in another batch "
            "(randomness of its own, or statistics of the batch); every example must be evaluated "
            "by itself, and all randomness come from Gaussian weights"
        )


def place(tree: nn.Module, name: str, g: Gaussian) -> None:
    """Register a Gaussian under the name of a parameter, dots included."""
    *path, last = name.split(".")
    for part in path:
        if part not in tree._modules:
            tree.add_module(part, nn.Module())
        tree = tree.get_submodule(part)
    tree.add_module(last, g)
