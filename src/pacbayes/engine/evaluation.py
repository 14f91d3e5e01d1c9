"""Draws of a network's output in float64 by the native engine, the same as PyTorch's.

`sampler` returns the engine's sampler where there is one for the network, and PyTorch's elsewhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from pacbayes.devices import CPU
from pacbayes.engine.interface import Activation, Evaluation, Status
from pacbayes.engine.library import library
from pacbayes.networks import quadrature
from pacbayes.networks.activations import FUNCTIONS, sign_of
from pacbayes.networks.bodies import Dense
from pacbayes.networks.families import law_of
from pacbayes.networks.families.diagonal import GaussianLinear, variance
from pacbayes.networks.families.rotated import Rotated
from pacbayes.networks.network import Network, first_layer
from pacbayes.networks.sampler import Places, Sampler, TorchSampler, is_placed

__all__ = ["NativeSampler", "sampler"]

_ACTIVATIONS = {
    torch.relu: Activation.RELU,
    torch.sigmoid: Activation.SIGMOID,
    sign_of: Activation.SIGN,
}


def sampler(network: Network) -> Sampler | None:
    """Return the fastest sampler of a network; None if its draws have no places."""
    if not is_placed(network):
        return None
    return NativeSampler(network) if NativeSampler.takes(network) else TorchSampler(network)


class NativeSampler:
    """The draws of the native engine."""

    rows = 100_000  # it has smaller blocks of its own

    def __init__(self, network: Network) -> None:
        if not self.takes(network):
            raise ValueError("the native engine draws dense networks of one activation, on the CPU")
        network.seal_prior()
        self._outputs, self._layers = network.outputs, _layers(network)
        self._first = first_layer(network).weight
        self.steady = not isinstance(self._first, Rotated)  # whose basis PyTorch multiplies by
        self._last: tuple[Tensor, Tensor] | None = None  # inputs, and the same in the basis
        self._activation = _ACTIVATIONS[_functions(network)[0]]
        self._step = quadrature.accuracy(network.outputs)[0] or 0.0
        self._task = network.task

    @staticmethod
    def takes(network: Network) -> bool:
        """Return whether the engine draws this network.

        What is not finite, or a variance that underflows, is left to PyTorch.
        """
        body = network.body
        if library() is None or not isinstance(body, Dense):
            return False
        tensors = [*network.parameters(), *network.buffers()]
        return (
            all(type(layer) is GaussianLinear for layer in (*body.layers, network.layer))
            and not any(
                isinstance(layer.weight, Rotated) for layer in (*body.layers, network.layer)[1:]
            )
            and all(rule in FUNCTIONS for rule in body.rules)
            and len(set(_functions(network))) == 1
            and _functions(network)[0] in _ACTIVATIONS
            and all(t.device.type == "cpu" and bool(t.isfinite().all()) for t in tensors)
            and all(
                bool((variance(law_of(layer.bias)) > 1e-200).all())
                for layer in (*body.layers, network.layer)
            )
        )

    def losses(self, x: Tensor, y: Tensor, places: Places) -> Tensor:
        """Return the losses of draws at their places."""
        labels = self._task.decode(y).to(torch.int32).contiguous()
        out = torch.empty(len(x), places.draws, dtype=torch.float64, device=CPU)
        self._run(x, labels, places, out)
        return out.T

    def outputs(self, x: Tensor, places: Places) -> Tensor:
        """Return the outputs of draws at their places."""
        size = len(x), places.draws, self._outputs
        out = torch.empty(size, dtype=torch.float64, device=CPU)
        self._run(x, None, places, out)
        return out.transpose(0, 1).squeeze(-1) if self._outputs == 1 else out.transpose(0, 1)

    def _seen(self, x: Tensor) -> Tensor:
        """Return inputs as the first layer sees them; those of the last call are kept."""
        if self.steady:
            return x
        if self._last is None or not torch.equal(self._last[0], x):
            self._last = x.clone(), self._first.seen(x)
        return self._last[1]

    def _run(self, x: Tensor, labels: Tensor | None, places: Places, out: Tensor) -> None:
        native = library()
        assert native is not None
        layers = self._layers
        widths = [layers[0][0].shape[1], *(len(layer[1]) for layer in layers)]
        if x.shape != (len(places), widths[0]):
            raise ValueError(
                f"the engine needs examples of shape ({len(places)}, {widths[0]}),"
                f" got {tuple(x.shape)}"
            )
        features = self._seen(x.detach().double()).contiguous()
        examples = np.ascontiguousarray(places.examples)
        arrays = [t for layer in layers for t in layer]
        units = [-1.0 if t[2].dim() == 2 else t[2].item() for t in layers]
        job = Evaluation(
            parameters=(ctypes.c_void_p * len(arrays))(*(t.data_ptr() for t in arrays)),
            units=(ctypes.c_double * len(units))(*units),
            widths=(ctypes.c_int32 * len(widths))(*widths),
            features=features.data_ptr(),
            labels=None if labels is None else labels.data_ptr(),
            places=examples.ctypes.data,
            out=out.data_ptr(),
            examples=len(features),
            first_draw=places.first,
            draws=places.draws,
            key=places.key,
            step=self._step,
            depth=len(layers) - 1,
            activation=self._activation,
            threads=torch.get_num_threads(),
        )
        status = native.pb_evaluate(job)
        if status == Status.OUT_OF_MEMORY:
            raise MemoryError("no memory for an evaluation by the native engine; use fewer draws")
        if status == Status.BAD_SCORES:
            raise ValueError(
                "the class scores are not finite, or their standard deviations differ too much to "
                "integrate; try a lower learning rate"
            )


def _functions(network: Network) -> list[Callable[[Tensor], Tensor]]:
    assert isinstance(network.body, Dense)
    return [FUNCTIONS[rule] for rule in network.body.rules]


def _layers(network: Network) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Return means of weights and biases, and their variances; one variance if all are equal."""
    found = []
    assert isinstance(network.body, Dense)
    for layer in (*network.body.layers, network.layer):
        weight, bias = layer.weight, layer.bias
        spread = variance(law_of(weight))
        found.append(
            (
                weight.mean.detach().double().contiguous(),
                bias.mean.detach().double().contiguous(),
                (spread.expand_as(weight.mean) if weight.learned_scale else spread).contiguous(),
                variance(law_of(bias)).expand_as(bias.mean).contiguous(),
            )
        )
    return found
