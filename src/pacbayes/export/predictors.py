"""The predictors of a network with noise as an explicit input, in plain operations.

A graph cannot hold random generators, branches on data or autograd functions, so each predictor is
written without them and is deterministic given its noise. All noise is standard normal. In dense
layers it is local, one number for every pre-activation. Given the activations below, this is the
same as drawing fresh weights for every example (see `networks.activations`). Other modules have a
number for every weight. Arithmetic is float64, as in a certificate, except for the error function
of a vote, and for modules in an ONNX file, since onnxruntime has no such convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pacbayes.choices import Predictor
from pacbayes.export.modules import DrawnModule, OneModule
from pacbayes.export.ports import Explicit, Port, Shape
from pacbayes.networks import quadrature
from pacbayes.networks.activations import FUNCTIONS
from pacbayes.networks.bodies import Body, Dense, Deterministic
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network

__all__ = ["NORMAL", "Explicit", "Port", "explicit"]

_Unit = Callable[[Tensor], Tensor]
_Graph = tuple[nn.Module, Sequence[Shape], str]  # shapes of the noise, meaning of the score
NORMAL = "independent standard normal numbers, fresh for every prediction"
SHARED = "independent standard normal numbers, fresh for every batch, whose examples share them"


class _Parts(NamedTuple):
    """A dense network taken apart: hidden layers, their units, the last layer."""

    hidden: Sequence[GaussianLinear]
    units: Sequence[_Unit]
    last: GaussianLinear
    samples: int
    weights: Mapping[str, Tensor]
    front: nn.Module | None = None  # a module that is not dense

    @property
    def widths(self) -> list[int]:
        return [len(layer.bias.mean) for layer in self.hidden]

    @property
    def outputs(self) -> int:
        return len(self.last.bias.mean)


def explicit(
    network: Network,
    method: Predictor,
    *,
    features: int,
    samples: int = 100,
    weights: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Explicit:
    """Return a predictor of a network.

    Args:
        features: number of features of an example.
        samples: T, draws of a vote; without hidden layers a vote is exact and draws nothing.
        weights: weights of one network, if that is the predictor.
        dtype: of the arithmetic of modules that are not dense.
    """
    hidden, units = _hidden(network.body)
    front = _front(network.body, method, weights or {}, dtype)
    parts = _Parts(hidden, units, network.layer, samples, weights or {}, front)
    module, shapes, meaning = _PREDICTORS[method](parts)
    x = Port("x", ("batch", features), "float32", "features as in the run's data, finite")
    noise = [
        Port(f"noise_{i}", s, "float64", NORMAL if "batch" in s else SHARED)
        for i, s in enumerate(shapes, start=1)
    ]
    label = Port("label", ("batch",), "int64", "index into the classes")
    return Explicit(module.eval(), (x, *noise), (_score(parts.outputs, meaning), label))


def _hidden(body: Body) -> tuple[Sequence[GaussianLinear], list[_Unit]]:
    if isinstance(body, Dense):
        return body.layers, [FUNCTIONS[rule] for rule in body.rules]
    return (), []


def _front(
    body: Body, method: Predictor, weights: Mapping[str, Tensor], dtype: torch.dtype
) -> nn.Module | None:
    """Return the part below the last layer, if it is not dense."""
    if isinstance(body, Dense):
        return None
    if isinstance(body, Deterministic):
        return None if isinstance(body.module, nn.Identity) else OneModule(body, {}, dtype)
    if not isinstance(body, Evaluated):
        raise ValueError(f"a body {type(body).__name__} of your own cannot be exported")
    if method is Predictor.VOTE:
        raise ValueError(
            "a vote of modules is not exported, since its file would hold every draw of their "
            "weights; use --method fixed, drawn or randomised"
        )
    if method is Predictor.RANDOMISED:
        return DrawnModule(body, dtype)
    return OneModule(body, weights, dtype)


def _score(outputs: int, meaning: str) -> Port:
    if outputs == 1:
        return Port("score", ("batch",), "float64", f"{meaning}; the second class where positive")
    return Port("score", ("batch", outputs), "float64", f"{meaning}; the class of the largest")


def _randomised(parts: _Parts) -> _Graph:
    module = _Randomised(_body(parts), parts.last)
    shapes: list[Shape] = [("batch", d) for d in (*parts.widths, parts.outputs)]
    if isinstance(parts.front, DrawnModule):
        shapes.insert(0, (parts.front.size,))
    return module, shapes, "output of the last layer, drawn"


def _vote(parts: _Parts) -> _Graph:
    module = _Vote(_body(parts), parts.last)
    shapes = [(parts.samples, "batch", d) for d in parts.widths]
    one = "mean output over the draws, from -1 to 1"
    return module, shapes, one if parts.outputs == 1 else "class probabilities"


def _one(parts: _Parts) -> _Graph:
    return _One(parts.weights, parts.units, parts.front), [], "output of the last layer"


def _body(parts: _Parts) -> nn.Module:
    return _Body(parts.hidden, parts.units) if parts.front is None else parts.front


_PREDICTORS = {
    Predictor.RANDOMISED: _randomised,
    Predictor.VOTE: _vote,
    Predictor.DRAWN: _one,
    Predictor.FIXED: _one,
}


class _Layer(nn.Module):
    """Mean and standard deviation of the pre-activations, as `GaussianLinear.moments`."""

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
    """Activations of the last hidden layer, with noise added in every layer."""

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
    """One draw of the scores; noise (B, d) for every layer, including the last."""

    def __init__(self, body: nn.Module, layer: GaussianLinear) -> None:
        super().__init__()
        self.body, self.last = body, _Layer(layer)

    def forward(self, x: Tensor, *noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = self.last(self.body(x, noise[:-1]))
        return _labelled(mean + deviation * noise[-1])


class _Vote(nn.Module):
    """The mean of the aggregated output over T draws; noise (T, B, d) for every hidden layer."""

    def __init__(self, body: nn.Module, layer: GaussianLinear) -> None:
        super().__init__()
        self.body, self.last = body, _Layer(layer)

    def forward(self, x: Tensor, *noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = self.last(self.body(x, noise))
        one = mean.shape[-1] == 1
        share = _erf(mean / deviation) if one else _win_probabilities(mean, deviation)
        return _labelled(share.mean(0) if noise else share)


class _One(nn.Module):
    """One network: drawn and kept, or at the prior's means. It takes no noise."""

    def __init__(
        self, weights: Mapping[str, Tensor], units: Sequence[_Unit], front: nn.Module | None
    ) -> None:
        super().__init__()
        self.units, self.front = list(units), front
        names = [*(f"body.layers.{i}" for i in range(len(units))), "layer"]
        for i, name in enumerate(names):
            self.register_buffer(f"weight_{i}", weights[f"{name}.weight"].clone())
            self.register_buffer(f"bias_{i}", weights[f"{name}.bias"].clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = x.double() if self.front is None else self.front(x)
        for i, unit in enumerate((*self.units, lambda z: z)):
            a = unit(linear(a, getattr(self, f"weight_{i}"), getattr(self, f"bias_{i}")))
        return _labelled(a)


def _labelled(score: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores, (B,) or (B, k), and the index of the class."""
    if score.shape[-1] > 1:
        return score, score.argmax(-1)
    score = score.squeeze(-1)
    return score, (score > 0).long()


def _erf(u: Tensor) -> Tensor:
    """Return erf(u/√2), in float32: onnxruntime has no other."""
    return torch.erf((u * 0.5**0.5).float()).double()


def _win_probabilities(mean: Tensor, deviation: Tensor) -> Tensor:
    """Return `quadrature.win_probabilities` without a gradient; Φ may underflow here."""
    H = quadrature.step(mean.shape[-1])
    least = deviation.amin(-1, keepdim=True)
    reach = (deviation.amax(-1, keepdim=True) / least).max() * (quadrature.REACH / H)
    half = reach.ceil().long().item()
    torch._check(half >= 1)
    points = torch.arange(-half, half + 1).double()
    z = mean.amax(-1, keepdim=True) + H * least * points  # (…, J)
    v = (z.unsqueeze(-1) - mean.unsqueeze(-2)) / deviation.unsqueeze(-2)  # (…, J, k)
    # 1e-30 is practically 0, and above the least float32
    below = (0.5 + 0.5 * _erf(v)).clamp(min=1e-30).log()
    others = below.sum(-1, keepdim=True) - below
    density = (others - 0.5 * v.square()).exp() / deviation.unsqueeze(-2)
    return H * least / math.sqrt(math.tau) * density.sum(-2)
