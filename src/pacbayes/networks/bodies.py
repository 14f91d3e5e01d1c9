"""Bodies: everything before the last layer, which draws activations (T, B, d) from inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from pacbayes.data.foreign import ask
from pacbayes.networks.activations import FUNCTIONS, Rule
from pacbayes.networks.draws import Draw
from pacbayes.networks.evaluated import Evaluated, check_activations, private
from pacbayes.networks.gaussian import Gaussian, drawn_state
from pacbayes.networks.layers import GaussianLinear
from pacbayes.randomness import aside, integer, redirected

__all__ = ["Body", "Dense", "Deterministic", "Freshness", "Sampled"]

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
