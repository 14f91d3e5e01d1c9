"""The predictors of a network with noise as an explicit input, in plain operations.

A graph cannot hold random generators, branches on data or autograd functions, so each predictor is
written without them and is deterministic given its noise. All noise is standard normal. In dense
layers it is local, one number for every pre-activation. Given the activations below, this is the
same as drawing fresh weights for every example (see `networks.activations`). Other modules are
evaluated at weights that are constants of the graph, or that noise makes, one number for every
weight, which a batch shares. Arithmetic is float64, as in a certificate, except for the error
function of a vote, and for modules in an ONNX file, since onnxruntime has no such convolutions.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear

from pacbayes.choices import Predictor
from pacbayes.data.frame import Kind
from pacbayes.networks import quadrature
from pacbayes.networks.activations import FUNCTIONS
from pacbayes.networks.bodies import Body, Dense, Deterministic, Evaluated
from pacbayes.networks.families import law_of
from pacbayes.networks.families.diagonal import GaussianLinear, drawn
from pacbayes.networks.families.rotated import Rotated
from pacbayes.networks.network import Network, first_layer
from pacbayes.networks.posterior import gaussians

__all__ = [
    "NORMAL",
    "DrawnModule",
    "Explicit",
    "OneModule",
    "Port",
    "RawColumn",
    "Shape",
    "explicit",
    "weights_at",
]

Shape = tuple[int | str, ...]
_Unit = Callable[[Tensor], Tensor]
_PREFIX = "body.posterior."
NORMAL = "independent standard normal numbers, fresh for every prediction"
SHARED = "independent standard normal numbers, fresh for every batch, whose examples share them"


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; the dimension "batch" may have any size."""

    name: str
    shape: Shape
    dtype: str
    meaning: str

    @property
    def batch_axis(self) -> int | None:
        """The dimension of the batch; None for noise that a batch shares."""
        return self.shape.index("batch") if "batch" in self.shape else None

    def sizes(self, batch: int | str) -> Shape:
        """Return the shape with a size for the batch."""
        return tuple(batch if size == "batch" else size for size in self.shape)


@dataclass(frozen=True)
class RawColumn:
    """A column of the run's table.

    Attributes:
        codes: of the texts that the encoding knows and of missing values; empty for numbers.
        other: the code of any other text.
    """

    name: str
    kind: Kind
    codes: dict[str, int] = field(default_factory=dict)
    other: int = 0

    @property
    def numeric(self) -> bool:
        """Whether its cells are numbers."""
        return self.kind.numeric


@dataclass(frozen=True)
class Explicit:
    """A module from (x, *noise) to (score, label), with its inputs and outputs.

    Attributes:
        columns: those of `x`, if it has rows of a table: numbers, and codes of texts.
    """

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    columns: tuple[RawColumn, ...] = ()

    @property
    def noise(self) -> tuple[Port, ...]:
        """The inputs after the examples."""
        return self.inputs[1:]


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
    front, last = _front(network.body, method, weights or {}, dtype), network.layer
    widths, outputs = [len(layer.bias.mean) for layer in hidden], len(last.bias.mean)
    body = _Body(hidden, units) if front is None else front
    module: nn.Module
    shapes: list[Shape] = []
    if method is Predictor.RANDOMISED:
        module, meaning = _Randomised(body, last), "output of the last layer, drawn"
        shapes = [("batch", d) for d in (*widths, outputs)]
        if isinstance(front, DrawnModule):
            shapes.insert(0, (front.size,))
    elif method is Predictor.VOTE:
        module, meaning = _Vote(body, last), "class probabilities"
        shapes = [(samples, "batch", d) for d in widths]
        if outputs == 1:
            meaning = "mean output over the draws, from -1 to 1"
    else:
        known = _of_inputs(network, weights or {})
        module, meaning = _One(known, units, front), "output of the last layer"
    x = Port("x", ("batch", features), "float32", "features as in the run's data, finite")
    noise = [
        Port(f"noise_{i}", s, "float64", NORMAL if "batch" in s else SHARED)
        for i, s in enumerate(shapes, start=1)
    ]
    label = Port("label", ("batch",), "int64", "index into the classes")
    return Explicit(module.eval(), (x, *noise), (_score(outputs, meaning), label))


def _of_inputs(network: Network, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return weights for the inputs as they are, where those of the first layer have a basis."""
    first = first_layer(network).weight
    if not isinstance(first, Rotated):
        return weights
    name = next(name for name, g in gaussians(network).items() if g is first)
    return {**weights, name: weights[name] @ first.coordinates.T}


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


class _Layer(nn.Module):
    """Mean and standard deviation of the pre-activations, as `GaussianLinear.moments`."""

    mean: Tensor
    bias: Tensor
    variance: Tensor
    bias_variance: Tensor
    basis: Tensor | None

    def __init__(self, layer: GaussianLinear) -> None:
        super().__init__()
        self.equal = not layer.weight.learned_scale
        of = {"mean": layer.weight.mean, "bias": layer.bias.mean, "variance": layer.weight.variance}
        for name, value in (*of.items(), ("bias_variance", layer.bias.variance)):
            self.register_buffer(name, value.detach().clone())
        weight = layer.weight
        basis = weight.coordinates.clone() if isinstance(weight, Rotated) else None
        self.register_buffer("basis", basis)

    def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
        a = a if self.basis is None else a @ self.basis
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
        weights[name] = drawn(law_of(g), own)
        start += g.mean.numel()
    return weights
