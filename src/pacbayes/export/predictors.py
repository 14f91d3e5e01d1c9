"""The predictors of a dense network with their noise as an explicit input, in plain operations.

What a graph can hold: no generator, no branch on data, no autograd function. Given its noise, each
is deterministic. All noise is standard normal and local, a number for every pre-activation: given
the activations below, that is a draw of fresh weights for every example (see `hidden`). Arithmetic
is float64, as a certificate's is, but for the error function of a vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pacbayes.choices import Method
from pacbayes.networks import quadrature
from pacbayes.networks.activations import FUNCTIONS
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network

__all__ = ["NORMAL", "Explicit", "Port", "explicit"]

_Unit = Callable[[Tensor], Tensor]
NORMAL = "independent standard normal numbers, fresh for every prediction"


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; the dimension "batch" is free."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    meaning: str


@dataclass(frozen=True)
class Explicit:
    """A module from (x, *noise) to (score, label), and what goes in and comes out."""

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def explicit(
    network: Network,
    method: Method,
    *,
    features: int,
    samples: int = 100,
    weights: Mapping[str, Tensor] | None = None,
) -> Explicit:
    """A predictor of a dense network.

    Args:
        features: in an example.
        samples: T, draws of a vote; without hidden layers a vote is exact and draws nothing.
        weights: of the network that was drawn and kept, if that is the predictor.
    """
    body, k = network.body, network.outputs
    layers, rules = (body.layers, body.rules) if isinstance(body, Dense) else ((), ())
    bare = isinstance(body, Deterministic) and isinstance(body.module, nn.Identity)
    if not (layers or bare):
        raise ValueError(f"only dense networks can be exported, got a body {type(body).__name__}")
    units = [FUNCTIONS[rule] for rule in rules]
    widths = [len(layer.bias.mean) for layer in layers]
    module: nn.Module
    shapes: list[tuple[int | str, ...]]
    if method == "drawn":
        module, shapes = _Drawn(weights or {}, units), []
        meaning = "output of the last layer"
    elif method == "vote":
        module = _Vote(_Body(layers, units), network.layer)
        shapes = [(samples, "batch", d) for d in widths]
        meaning = "mean output over the draws, from -1 to 1" if k == 1 else "class probabilities"
    else:
        module = _Randomised(_Body(layers, units), network.layer)
        shapes = [("batch", d) for d in (*widths, k)]
        meaning = "output of the last layer, drawn"
    x = Port("x", ("batch", features), "float32", "features as in the run's data, finite")
    names = [f"noise_{i + 1}" for i in range(len(shapes))]
    noise = [Port(n, s, "float64", NORMAL) for n, s in zip(names, shapes, strict=True)]
    rule = "class 1 where positive" if k == 1 else "the class of the largest"
    score = Port("score", ("batch",) if k == 1 else ("batch", k), "float64", f"{meaning}; {rule}")
    label = Port("label", ("batch",), "int64", "index into the classes")
    return Explicit(module.eval(), (x, *noise), (score, label))


class _Layer(nn.Module):
    """Moments of the pre-activations: `GaussianLinear.moments`."""

    mean: Tensor
    bias: Tensor
    variance: Tensor
    bias_variance: Tensor

    def __init__(self, layer: GaussianLinear) -> None:
        super().__init__()
        self.equal = not layer.weight.learned_scale
        of = {"mean": layer.weight.mean, "bias": layer.bias.mean, "variance": layer.weight.variance}
        for name, value in (*of.items(), ("bias_variance", layer.bias.variance)):
            self.register_buffer(name, value.detach().clone())

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        mean, squares = linear(a, self.mean, self.bias), a.square()
        if self.equal:
            spread = self.variance * squares.sum(-1, keepdim=True) + self.bias_variance
        else:
            spread = linear(squares, self.variance, self.bias_variance)
        return mean, spread.sqrt()


class _Body(nn.Module):
    """Activations of the last hidden layer, each layer moved by its noise."""

    def __init__(self, layers: Sequence[GaussianLinear], units: Sequence[_Unit]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(layer) for layer in layers)
        self.units = list(units)

    def forward(self, x: Tensor, noise: Sequence[Tensor]) -> Tensor:
        a = x.double()
        for layer, unit, e in zip(self.layers, self.units, noise, strict=True):
            mean, deviation = layer(a)
            a = unit(mean + deviation * e)
        return a


class _Randomised(nn.Module):
    """One draw of the scores; noise (B, d) for every layer, the last included."""

    def __init__(self, body: _Body, layer: GaussianLinear) -> None:
        super().__init__()
        self.body, self.last = body, _Layer(layer)

    def forward(self, x: Tensor, *noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = self.last(self.body(x, noise[:-1]))
        return _labelled(mean + deviation * noise[-1])


class _Vote(nn.Module):
    """The mean of the aggregated output over T draws; noise (T, B, d) for every hidden layer."""

    def __init__(self, body: _Body, layer: GaussianLinear) -> None:
        super().__init__()
        self.body, self.last = body, _Layer(layer)

    def forward(self, x: Tensor, *noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = self.last(self.body(x, noise))
        one = mean.shape[-1] == 1
        share = _erf(mean / deviation) if one else _win_probabilities(mean, deviation)
        return _labelled(share.mean(0) if noise else share)


class _Drawn(nn.Module):
    """The network that was drawn and kept, without noise."""

    def __init__(self, weights: Mapping[str, Tensor], units: Sequence[_Unit]) -> None:
        super().__init__()
        self.units = list(units)
        names = [*(f"body.layers.{i}" for i in range(len(units))), "layer"]
        for i, name in enumerate(names):
            self.register_buffer(f"weight_{i}", weights[f"{name}.weight"].clone())
            self.register_buffer(f"bias_{i}", weights[f"{name}.bias"].clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x.double()
        for i, unit in enumerate((*self.units, lambda z: z)):
            a = unit(linear(a, getattr(self, f"weight_{i}"), getattr(self, f"bias_{i}")))
        return _labelled(a)


def _labelled(score: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) or (B, k), and the index of the class."""
    if score.shape[-1] > 1:
        return score, score.argmax(-1)
    score = score.squeeze(-1)
    return score, (score > 0).long()


def _erf(u: Tensor) -> Tensor:
    """erf(u/√2), in float32: onnxruntime has no other."""
    return torch.erf((u * 0.5**0.5).float()).double()


def _win_probabilities(mean: Tensor, deviation: Tensor) -> Tensor:
    """`quadrature.win_probabilities` without its gradient, where Φ may underflow."""
    H = quadrature.step(mean.shape[-1])
    least = deviation.amin(-1, keepdim=True)
    reach = (deviation.amax(-1, keepdim=True) / least).max() * (quadrature.REACH / H)
    half = reach.ceil().long().item()
    torch._check(half >= 1)
    points = torch.arange(-half, half + 1).double()
    z = mean.amax(-1, keepdim=True) + H * least * points  # (…, J)
    v = (z.unsqueeze(-1) - mean.unsqueeze(-2)) / deviation.unsqueeze(-2)  # (…, J, k)
    below = (0.5 + 0.5 * _erf(v)).clamp(min=1e-30).log()  # as good as none, and a float32, too
    others = below.sum(-1, keepdim=True) - below
    density = (others - 0.5 * v.square()).exp() / deviation.unsqueeze(-2)
    return H * least / math.sqrt(math.tau) * density.sum(-2)
