"""Make a certificate's random numbers again from seeds and keys, without PyTorch.

Used by `verify` alone: the means of a data-free prior, a split, a network that was drawn and kept,
and the draws by which the risk was sampled. Only these draws need SciPy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLOCK",
    "Layer",
    "Measured",
    "is_data_free",
    "is_kept",
    "last_layer",
    "measure",
    "measure_shared",
    "shuffled",
]

Array = NDArray[Any]
Weights = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]
Laws = tuple[Weights, Weights]  # prior, posterior
Data = tuple[Array, Array]  # features, class indices
Activation = Callable[[Array], Array]
Body = Callable[[Weights, Array], Array]  # activations of a module at weights by their names
ACTIVATIONS: dict[str, Activation] = {
    "relu": lambda z: np.maximum(z, 0),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "sign": lambda z: np.where(z >= 0, 1.0, -1.0),
}
BLOCK = 64  # examples that share a draw of a module's weights
_DEVIATION = math.sqrt(0.05)  # of a data-free prior's means, cut at twice that
_ROUNDING = 2e-7  # of float32 numbers of that size
_CLOSE = 1e-9  # a sign unit this near to zero may round to the other side on another processor
_DOUBTFUL = 1e-6  # share of draws with such a unit that counts as no error; more count as errors
_MOST_SIGNS = 20  # units of a layer that are summed exactly
_EXAMPLES, _DRAWS = 20, 100  # of a block of draws, which has its own place under the key
_PHILOX = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)  # multipliers, steps of the key
_NEAR = 1e-12  # a uniform number or a mean this near to its threshold may round to the other side
_REACH = 7  # of the integral over class scores, in standard deviations


class _Torch:
    """The float32 normal numbers of torch's CPU generator: MT19937 and Box–Muller."""

    def __init__(self, seed: int) -> None:
        self._words, self._left = np.random.RandomState(seed % 2**32), list[float]()

    def normal(self, n: int) -> Array:
        """Draw numbers of standard deviation √0.05, in blocks of 16 if there are enough."""
        if n < 16:
            return np.array([self._one() for _ in range(n)], np.float32)
        values, rest = self._blocks(self._uniform(n)[: n - n % 16]), n % 16
        if rest:  # the last 16 are drawn again
            values = np.append(values, np.zeros(rest, np.float32))
            values[-16:] = self._blocks(self._uniform(16))
        return values

    def _uniform(self, n: int) -> Array:
        words = np.frombuffer(self._words.bytes(4 * n), "<u4") % 2**24
        return np.asarray(words.astype(np.float32) * np.float32(2**-24))

    def _blocks(self, uniform: Array) -> Array:
        u, v = np.moveaxis(uniform.reshape(-1, 2, 8), 1, 0)
        r, angle = np.sqrt(-2 * np.log(1 - u)), np.float32(math.tau) * v
        pairs = np.stack([r * np.cos(angle), r * np.sin(angle)], 1)
        return np.asarray(pairs.ravel() * np.float32(_DEVIATION))

    def _one(self) -> float:
        if self._left:
            return self._left.pop()
        words = np.frombuffer(self._words.bytes(16), "<u4").astype(np.uint64).reshape(2, 2)
        u, v = (((words[:, 0] << np.uint64(32)) | words[:, 1]) % 2**53 * 2.0**-53).tolist()
        r = _DEVIATION * math.sqrt(-2 * math.log1p(-v))
        self._left.append(r * math.sin(math.tau * u))
        return r * math.cos(math.tau * u)


def shuffled(seed: int, count: int) -> Array:
    """Return the order of units from which the seed of a split takes its parts."""
    words = np.random.SeedSequence(seed, spawn_key=(4,)).generate_state(1, np.uint64)
    return np.random.default_rng(int(words[0])).permutation(count)


def is_data_free(seed: int, claimed: Sequence[Array]) -> bool:
    """Return whether a prior's means, tensor by tensor, are what its seed draws.

    They are normal numbers, drawn again where they lie beyond two standard deviations.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(0,))
    torch = _Torch(int(sequence.generate_state(1, np.uint64)[0]))
    for means in claimed:
        drawn = torch.normal(means.size)
        while (again := _beyond(drawn, means)).any():
            drawn = np.where(again, torch.normal(means.size), drawn)
        if not np.abs(drawn - means).max() <= _ROUNDING:
            return False
    return True


def _beyond(drawn: Array, claimed: Array) -> Array:
    """Return what has to be drawn again; within rounding of the cut, the claim tells."""
    beyond = np.abs(drawn) - 2 * _DEVIATION
    return np.where(np.abs(beyond) > _ROUNDING, beyond > 0, np.abs(drawn - claimed) > _ROUNDING)


def _scales(prior: Weights, posterior: Weights) -> Weights:
    """Return ln σ of every Gaussian by name, a single number where it was not trained."""
    names = sorted(key.removesuffix(".mean") for key in posterior if key.endswith(".mean"))
    each = ((k, posterior.get(f"{k}.log_scale", prior[f"{k}.prior_log_scale"])) for k in names)
    return {name: scale.astype(float) for name, scale in each}


def _key(laws: Laws, data: Data) -> int:
    """Return the key of all draws: SHA-256 of means, ln σ and basis, by name, and of the data."""
    hasher = hashlib.sha256()
    for name, scale in _scales(*laws).items():
        for tensor in (laws[1][f"{name}.mean"], scale):
            hasher.update(np.ascontiguousarray(tensor, dtype="<f8").data)
        if (vectors := laws[1].get(f"{name}.reflections")) is not None:
            hasher.update(np.ascontiguousarray(vectors, dtype="<f4").data)
        if (smooth := laws[1].get(f"{name}.smoothness")) is not None:
            hasher.update(np.ascontiguousarray(smooth, dtype="<f8").data)
    hasher.update(np.ascontiguousarray(data[0], dtype="<f4").data)
    hasher.update(np.ascontiguousarray(data[1], dtype="<i8").data)
    return int.from_bytes(hasher.digest(), "little")


def _generator(key: int, *place: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(key, spawn_key=place))


def is_kept(weights: Weights, number: int, laws: Laws, data: Data) -> bool:
    """Return whether weights are μ + σz with the z that the key gives to the network's number."""
    rng = _generator(_key(laws, data), number)
    for name, scale in _scales(*laws).items():
        mean = laws[1][f"{name}.mean"].astype(float)
        wanted = mean + np.exp(scale) * rng.standard_normal(mean.shape)
        if not np.allclose(weights[name], wanted, rtol=1e-9, atol=1e-12):
            return False
    return True


class Layer(NamedTuple):
    """Means and variances of a layer's weights, (outputs, inputs), and biases."""

    weight: Array
    bias: Array
    weight_variance: Array
    bias_variance: Array

    def moments(self, a: Array) -> tuple[Array, Array]:
        """Return mean and deviation of the pre-activations at a, (…, inputs)."""
        rows, shape = a.reshape(-1, a.shape[-1]), (*a.shape[:-1], len(self.bias))
        mean = rows @ self.weight.T + self.bias
        variance = rows**2 @ self.weight_variance.T + self.bias_variance
        return mean.reshape(shape), np.sqrt(variance).reshape(shape)


@dataclass(frozen=True)
class Measured:
    """Mean loss of all draws, and of ½(X − X')² and X·X' over pairs of draws."""

    mean: float
    within: float
    tandem: float


@np.errstate(all="ignore")  # an output that is not a number is an error
def measure(
    names: Sequence[str],
    laws: Laws,
    activation: Activation,
    data: Data,
    samples: int | None,
    step: float,
    seen: Activation = lambda x: x.astype(float),
) -> Measured:
    """Measure the risk with the draws of the key, or exactly if samples is None.

    Args:
        names: of weights and biases, from the first layer.
        step: of the quadrature over more than two classes, in standard deviations.
        seen: inputs as the first layer sees them.
    """
    scales, means = _scales(*laws), [laws[1][f"{name}.mean"].astype(float) for name in names]
    pairs_of = zip(names, means, strict=True)
    spread = [np.exp(2 * np.broadcast_to(scales[name], mean.shape)) for name, mean in pairs_of]
    layers = [Layer(*means[i : i + 2], *spread[i : i + 2]) for i in range(0, len(names), 2)]
    sums, count, pairs, doubtful = np.zeros(3), 0, 0, 0
    noise = _Placed(_key(laws, data), _jumps(activation))
    for drawn in _losses(layers, activation, data, noise, samples, step, seen):
        losses, half = np.nan_to_num(drawn), len(drawn) // 2 * 2
        doubtful += int(np.isnan(drawn).sum())
        A, B = (losses, losses) if samples is None else (losses[:half:2], losses[1:half:2])
        sums += losses.sum(), ((A - B) ** 2).sum() / 2, (A * B).sum()
        count, pairs = count + losses.size, pairs + A.size
    total, within, tandem = sums.tolist()
    if doubtful > _DOUBTFUL * count:  # no accident of rounding: each may be an error
        total, within, tandem = total + doubtful, pairs / 2, tandem + doubtful
    return Measured(min(1.0, total / count), within / max(1, pairs), tandem / max(1, pairs))


@np.errstate(all="ignore")
def measure_shared(
    names: Sequence[str], laws: Laws, body: Body, data: Data, samples: int | None, step: float
) -> Measured:
    """Measure the risk of a module, whose drawn weights a block of examples shares.

    Each block has a generator for every hundred draws, of all its weights in the order of names.

    Args:
        names: of all Gaussians, in the order of the network; those of the last layer come last.
    """
    scales, key, T = _scales(*laws), _key(laws, data), samples or 1
    means = {name: laws[1][f"{name}.mean"].astype(float) for name in names}
    last = Layer(*_moments_of_last(means, scales))
    hidden = [name for name in names if not name.startswith("layer.")]
    sums, n = np.zeros(4), len(data[0])
    for block, i in enumerate(range(0, n, BLOCK)):
        x, y = data[0][i : i + BLOCK].astype(float), data[1][i : i + BLOCK]
        for part, t in enumerate(range(0, T, _DRAWS)):
            rng = _generator(key, block, part)
            drawn = []
            for _ in range(min(_DRAWS, T - t)):
                weights = {
                    k: means[k] + np.exp(scales[k]) * rng.standard_normal(means[k].shape)
                    for k in hidden
                }
                drawn.append(last_layer(last, body(weights, x), y, step))
            losses = np.clip(np.nan_to_num(np.stack(drawn), nan=1.0), 0, 1)
            half = len(losses) // 2 * 2
            A, B = (losses, losses) if samples is None else (losses[:half:2], losses[1:half:2])
            sums += (
                losses.sum(),
                ((A - B).sum(-1) ** 2).sum() / 2,  # of sums over the block
                (A * B).sum(),
                A.size,
            )
    total, shared, tandem, pairs = sums.tolist()
    largest = min(n, BLOCK)
    within = shared / largest / max(1, n * (T // 2))
    return Measured(min(1.0, total / (n * T)), within, tandem / max(1, pairs))


def _moments_of_last(means: Weights, scales: Weights) -> Iterator[Array]:
    """Yield means and variances of the last layer's weights and biases."""
    for name in ("layer.weight", "layer.bias"):
        yield means[name]
    for name in ("layer.weight", "layer.bias"):
        yield np.exp(2 * np.broadcast_to(scales[name], means[name].shape))


def _losses(
    layers: Sequence[Layer],
    activation: Activation,
    data: Data,
    noise: _Placed,
    samples: int | None,
    step: float,
    seen: Activation,
) -> Iterator[Array]:
    """Yield the losses of every block, (T, B)."""
    for block, i in enumerate(range(0, len(data[0]), _EXAMPLES)):
        x, y = seen(data[0][i : i + _EXAMPLES]), data[1][i : i + _EXAMPLES]
        if samples is None:
            yield _summed(layers, x, y, step)
            continue
        for part, t in enumerate(range(0, samples, _DRAWS)):
            noise.start(block, part, min(_DRAWS, samples - t))
            yield _sampled(layers, activation, x, y, noise, step)


def _sampled(
    layers: Sequence[Layer],
    activation: Activation,
    x: Array,
    y: Array,
    noise: _Placed,
    step: float,
) -> Array:
    """Return the losses of T networks for each example; NaN where a sign is doubtful."""
    a, doubtful = x, np.zeros((), bool)
    for layer in layers[:-1]:
        z, unsure = noise.pre_activations(*layer.moments(a))
        a, doubtful = activation(z), doubtful | unsure
    losses = last_layer(layers[-1], np.broadcast_to(a, (noise.draws, *a.shape[-2:])), y, step)
    unknown = np.isnan(losses)  # an output that is not a number is an error
    return np.where(doubtful, np.nan, np.where(unknown, 1.0, np.clip(losses, 0, 1)))


def _jumps(activation: Activation) -> bool:
    """Return whether an activation is a sign, which rounding can change altogether."""
    low, high = activation(np.array([-_CLOSE, _CLOSE]))
    return bool(high - low > 1)


class _Placed:
    """Numbers by Philox4x32-10: each has a place, by pair of units, draw and example.

    A pair's words, 52 bits of each, are the uniforms U and V of Box and Muller's normal numbers; a
    sign unit is +1 where its uniform is below the probability.
    """

    def __init__(self, key: int, signs: bool) -> None:
        self._key, self._tag = key % 2**64, key >> 64 & 0xFFFFFFFF
        self._signs, self.draws = signs, 0

    def start(self, block: int, part: int, draws: int) -> None:
        self._example, self._first = block * _EXAMPLES, part * _DRAWS
        self._pair, self.draws = 0, draws

    def pre_activations(self, mean: Array, scale: Array) -> tuple[Array, Array]:
        """Return draws of the next layer, (T, B, units), and where a sign is doubtful, (T, B)."""
        from scipy.special import ndtr

        examples, units = mean.shape[-2:]
        U, V = self._uniforms(examples, (units + 1) // 2)
        if self._signs:
            u = self._units(U, V, units)
            up, down = (ndtr((mean + e) / scale) + e for e in (_NEAR, -_NEAR))
            return ndtr(mean / scale) - u, ((u < up) & (u > down)).any(-1)
        radius, angle = np.sqrt(-2 * np.log(U)), math.tau * V
        normal = self._units(radius * np.cos(angle), radius * np.sin(angle), units)
        return mean + scale * normal, np.zeros((), bool)

    @staticmethod
    def _units(even: Array, odd: Array, units: int) -> Array:
        return np.stack([even, odd], -1).reshape(*even.shape[:-1], -1)[..., :units]

    def _uniforms(self, examples: int, pairs: int) -> tuple[Array, ...]:
        words = [np.arange(n, dtype=np.uint64) for n in (pairs, self.draws, examples)]
        x0 = words[0] + np.uint64(self._pair)
        x1 = (words[1] + np.uint64(self._first))[:, None, None]
        x2, x3 = (words[2] + np.uint64(self._example))[:, None], np.uint64(self._tag)
        self._pair += pairs
        low, half, keys = np.uint64(0xFFFFFFFF), np.uint64(32), [self._key % 2**32, self._key >> 32]
        a, b = map(np.uint64, _PHILOX[0])
        for _ in range(10):
            first, second = map(np.uint64, keys)
            x0, x1, x2, x3 = (
                b * x2 >> half ^ x1 ^ first,
                b * x2 & low,
                a * x0 >> half ^ x3 ^ second,
                a * x0 & low,
            )
            keys = [(k + w) % 2**32 for k, w in zip(keys, _PHILOX[1], strict=True)]
        each = (x0 | x1 << half, x2 | x3 << half)
        return tuple(((w >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52 for w in each)


def _summed(layers: Sequence[Layer], x: Array, y: Array, step: float) -> Array:
    """Return the loss of each example, (1, B), summed over all values of sign units."""
    from scipy.special import ndtr

    a, weight = x, np.eye(len(x))
    for layer in layers[:-1]:
        if len(layer.bias) > _MOST_SIGNS:
            raise ValueError(f"{len(layer.bias)} sign units are too many to sum exactly")
        states = np.array(list(product((-1.0, 1.0), repeat=len(layer.bias))))
        mean, scale = layer.moments(a)
        up = ndtr(mean / scale)[:, None]
        weight, a = weight @ np.where(states > 0, up, 1 - up).prod(-1), states
    labels = range(max(2, len(layers[-1].bias)))
    each = [last_layer(layers[-1], a, np.full(len(a), label), step) for label in labels]
    return np.asarray(np.take_along_axis(weight @ np.stack(each, 1), y[:, None], 1).T)


def last_layer(layer: Layer, a: Array, y: Array, step: float) -> Array:
    """Return P(the label does not win) at activations a, integrated over the last layer."""
    from scipy.special import log_ndtr, ndtr

    mean, scale = layer.moments(a)
    if mean.shape[-1] == 1:
        return np.asarray(ndtr((1 - 2 * y) * (mean / scale)[..., 0]))
    h = step * scale.min(-1, keepdims=True)
    half = math.ceil(_REACH * (scale.max(-1, keepdims=True) / h).max())
    z = mean.max(-1, keepdims=True) + h * np.arange(-half, half + 1)  # (…, points)
    v = (z[..., None] - mean[..., None, :]) / scale[..., None, :]  # (…, points, classes)
    label = np.broadcast_to(y[:, None], (*mean.shape[:-1], 1))
    own = np.take_along_axis(v, label[..., None], -1)[..., 0]  # (…, points)
    logs = log_ndtr(v).sum(-1) - log_ndtr(own) - own**2 / 2
    density = np.exp(logs) / np.take_along_axis(scale, label, -1)
    return np.asarray(1 - (h * density).sum(-1) / math.sqrt(math.tau))
