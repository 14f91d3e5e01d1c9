"""Bodies: everything before the last layer, which draws activations (T, B, d) from inputs.

`Evaluated` takes any module: Q is over its parameters, and it is only evaluated at draws from Q.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from pacbayes.data.foreign import apart, ask
from pacbayes.networks.activations import FUNCTIONS, Draw, Rule
from pacbayes.networks.families.diagonal import Gaussian, GaussianLinear
from pacbayes.networks.local import LocalDraws
from pacbayes.networks.posterior import drawn_state, gaussians, weights_from
from pacbayes.randomness import aside, integer, redirected

__all__ = [
    "Body",
    "Dense",
    "Deterministic",
    "Evaluated",
    "Freshness",
    "Sampled",
    "check_activations",
    "place",
    "private",
]

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
            draws.append(evaluate(x, weights_from(self.posterior, generator), module))
        return torch.stack(draws)

    def _locally_drawn(self, x: Tensor) -> Tensor:
        every = gaussians(self.posterior)
        weights = {name: g.sample() for name, g in every.items()}
        with LocalDraws([(weights[name], g) for name, g in every.items()]):
            return self.at(x, weights)


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


Freshness = Literal["exact", "per-example", "per-batch"]


class Dense(nn.Module):
    """Gaussian dense layers, each followed by an activation's sampling rule.

    Local draws give every example and every sample its own weights.
    """

    freshness: Freshness = "per-example"

    def __init__(self, layers: Sequence[GaussianLinear], rules: Sequence[Rule]) -> None:
        super().__init__()
        if not layers or len(layers) != len(rules):
            raise ValueError(
                f"every layer needs one rule, got {len(layers)} layers and {len(rules)} rules"
            )
        self.layers: Sequence[GaussianLinear] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.rules = list(rules)

    def draw(self, x: Tensor, T: int) -> Draw:
        """Draw T outputs for each example, with local draws."""
        if x.dim() != 2:
            raise ValueError(f"a dense body needs examples of shape (B, d), got {tuple(x.shape)}")
        a, log_prob = x, x.new_zeros(())
        for layer, rule in zip(self.layers, self.rules, strict=True):
            sample = rule(*layer.moments(a), T)
            a, log_prob = sample.value, log_prob + sample.log_prob
        return Draw(a, log_prob)

    def draw_with(self, x: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        """Return activations at T draws for each example, (T, B, d), without a gradient."""
        a = x
        for layer, rule in zip(self.layers, self.rules, strict=True):
            mean, deviation = layer.moments(a)
            noise = torch.from_numpy(generator.standard_normal((T, *mean.shape[-2:])))
            a = FUNCTIONS[rule](torch.addcmul(mean, deviation, noise.to(mean)))
        return a


class Deterministic(nn.Module):
    """A module that always returns the same activations (B, d), so that the aggregate is exact.

    It stays in evaluation mode, also while the last layer is trained.
    """

    freshness: Freshness = "exact"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if any(isinstance(m, Gaussian) for m in module.modules()):
            raise ValueError("a body with Gaussian weights is not deterministic; use Sampled")
        self.module = module.eval()

    def train(self, mode: bool = True) -> Deterministic:
        super().train(mode)
        self.module.eval()
        return self

    def draw(self, x: Tensor, T: int) -> Draw:
        """Return the same output T times."""
        a = check_activations(ask(self.module, x), len(x))
        if not torch.is_grad_enabled():
            _check_repeatable(self.module, x, a, "the body is not deterministic; use Sampled")
        return Draw(a.expand(T, *a.shape), a.new_zeros(()))

    def draw_with(self, x: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        """Return the activations, (1, B, d), which are the same at every draw."""
        return self.draw(x, 1).value


class Sampled(nn.Module):
    """Any module on Gaussian weights; it is called once for each of T samples.

    In training it draws its own randomness, and the gradient is that of its output's graph. What it
    draws from torch's generator, such as dropout, comes from the run's own (`redirected`). In
    evaluation θ is drawn here and the module runs as an ordinary function at θ, so that it cannot
    predict with anything but a draw from Q. A batch shares θ and counts as one draw.
    """

    freshness: Freshness = "per-batch"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def draw(self, x: Tensor, T: int) -> Draw:
        """Draw T outputs for each example, each with new weights."""
        if torch.is_grad_enabled():
            with redirected():
                return Draw(torch.stack([ask(self.module, x) for _ in range(T)]), x.new_zeros(()))
        generator = np.random.default_rng(integer(2**63 - 1))
        return Draw(self.draw_with(x, T, generator), x.new_zeros(()))

    def draw_with(self, x: Tensor, T: int, generator: np.random.Generator) -> Tensor:
        """Return activations at T draws that the batch shares, (T, B, d), without a gradient."""
        module = private(self.module)
        return torch.stack([_at_drawn_state(module, x, generator) for _ in range(T)])


def _at_drawn_state(module: nn.Module, x: Tensor, generator: np.random.Generator) -> Tensor:
    call = partial(functional_call, module, drawn_state(module, generator))
    with aside():  # a layer may still draw noise, of scale zero
        a: Tensor = ask(call, x)
        _check_repeatable(call, x, a, "use only the randomness of Gaussian weights")
    return a


def _check_repeatable(call: Callable[[Tensor], Tensor], x: Tensor, a: Tensor, advice: str) -> None:
    """Refuse a body whose output changes from call to call, or with the rest of the batch."""
    part = ask(call, x[: (len(x) + 1) // 2])
    if not torch.allclose(a[: len(part)], part, rtol=1e-5, atol=1e-8):
        raise ValueError(
            "the body returns different activations when it is called again in a smaller batch "
            f"(dropout, or batch norm in training mode?): {advice}"
        )


Body = Dense | Deterministic | Sampled | Evaluated
