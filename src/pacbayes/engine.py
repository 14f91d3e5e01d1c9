"""The native engine: steps of dense networks on a CPU, several times faster than eager torch.

C behind a plain interface, built with the package where there is a compiler (`native/`). The torch
path stays the reference, and serves every other body, device, precision and processor.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from pacbayes import heads, hidden
from pacbayes.bodies import Dense, Deterministic
from pacbayes.draws import leave_one_out, no_baseline
from pacbayes.gaussian import Gaussian
from pacbayes.network import Network

__all__ = ["NativeEngine", "available", "unsupported"]

_RELU, _SIGMOID, _SIGN = range(3)
_MARGINAL, _LEAVE_ONE_OUT, _LOCAL_EXPECTATION, _STRAIGHT_THROUGH, _REINFORCE = range(5)


@cache
def library() -> ctypes.CDLL | None:
    """The widest build this processor can run, or None where there is none."""
    capability = torch.backends.cpu.get_cpu_capability()
    builds = {"AVX512": ["avx512", "avx2"], "AVX2": ["avx2"]}.get(capability, [])
    for build in builds:
        path = Path(__file__).parent / "native" / f"libengine-{build}.so"
        try:
            return _declared(ctypes.CDLL(str(path)))
        except OSError:  # not built, or not for this system
            continue
    return None


def available() -> bool:
    return library() is not None


def unsupported(network: Network, x: Tensor) -> str | None:
    """Why the engine cannot take this network and data; None where it can."""
    if not available():
        return "the native engine is not built for this machine"
    if isinstance(network.body, Deterministic):
        return "the native engine takes networks with hidden layers"
    if _kind(network) is None:
        return "the native engine takes dense networks with the library's own rules and head"
    gaussians = _gaussians(network)
    if len({id(g) for g in gaussians}) < len(gaussians):
        return "the native engine takes layers that share no weights"
    if len({g.learned_scale for g in gaussians}) != 1:
        return "the native engine takes scales that are all learned or all fixed"
    if not all(p.requires_grad for p in network.parameters()):
        return "the native engine takes networks of which nothing is frozen"
    for t in (x, *network.parameters(), *network.buffers()):
        if t.dtype != torch.float32 or t.device.type != "cpu":
            return "the native engine takes float32 networks and data on the CPU"
    if not all(p.is_contiguous() for p in network.parameters()):
        return "the native engine takes contiguous parameters"
    return None


class _Tensor(ctypes.Structure):
    """`tensor` of native/adam.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("value", "gradient", "m", "v")),
        *((name, ctypes.c_void_p) for name in ("prior_mean", "prior_log_scale")),
        ("count", ctypes.c_int64),
    )


class NativeEngine:
    """A network's steps at T samples; holds scratch space, and the network's tensors by reference.

    Random numbers come from streams keyed by (seed, step, chunk) and partial sums are fixed, so
    results do not depend on the number of threads.

    Args:
        reinforce: gradients are REINFORCE's, by `samples` draws of all weights, which the batch
            shares, and go with their 0-1 loss; losses alone are then of one sample.
    """

    def __init__(self, network: Network, samples: int, *, reinforce: bool = False) -> None:
        native, kind = library(), _kind(network)
        if native is None or kind is None or not isinstance(network.body, Dense):
            raise ValueError("the native engine cannot take this network")
        if reinforce:
            if network.outputs > 1 or network.layer.weight.learned_scale:
                raise ValueError("native REINFORCE takes two classes and scales that are fixed")
            kind = kind[0], _REINFORCE
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        self._native, self.samples, self._reinforce = native, samples, reinforce
        self._lock = threading.Lock()  # one step at a time uses the scratch space
        self._scored = kind[0] == _SIGN and network.baseline is leave_one_out
        layers = [*network.body.layers, network.layer]
        self._inputs = layers[0].weight.mean.shape[1]
        widths = [self._inputs, *(y.bias.mean.shape[0] for y in layers)]
        gaussians = _gaussians(network)
        self._parameters = _parameters(network)
        self._trained = [(g.mean, g.prior_mean, g.prior_log_scale) for g in gaussians] + [
            (g.log_scale, None, g.prior_log_scale) for g in gaussians if g.learned_scale
        ]
        self._steps = torch.zeros(())  # one counter for all of Adam's slots
        self._adam_addresses: list[tuple[int | None, ...]] = []
        self._handle = native.pb_open(
            len(layers) - 1,
            (ctypes.c_int32 * len(widths))(*widths),
            *kind,
            int(gaussians[0].learned_scale),
            samples,
        )
        if not self._handle:
            raise MemoryError(f"no memory for the native engine at {samples} samples")
        # Not at exit, where a thread may still be in a step; the system frees what is left then.
        weakref.finalize(self, native.pb_close, self._handle).atexit = False

    def loss(self, x: Tensor, y: Tensor, index: Tensor, seed: int, step: int) -> float:
        """Sum over the indexed examples of the linear loss of F̂*_Q."""
        return self._run(x, y, index, seed, step, None)

    def loss_and_grad(
        self,
        x: Tensor,
        y: Tensor,
        index: Tensor,
        seed: int,
        step: int,
        *,
        log_loss: bool = False,
    ) -> float:
        """The same, with the gradient of its mean left in every parameter's `grad`.

        Args:
            log_loss: the gradient is that of the mean of −ln(1 − loss) instead.
        """
        if self._reinforce and log_loss:
            raise ValueError("native REINFORCE does not know the log loss")
        if self._scored and self.samples < 2:
            raise ValueError(f"leave-one-out needs at least 2 samples, got {self.samples}")
        for p in self._parameters:
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        gradients = _pointers([p.grad for p in self._parameters])
        return self._run(x, y, index, seed, step, gradients, log_loss=log_loss)

    def adam_step(self, optimiser: torch.optim.Adam, coefficient: float) -> None:
        """A step on the risk, whose gradient `loss_and_grad` left, plus coefficient·KL(Q|P).

        The optimiser's own slots are used, so that it can be saved and taken up by torch.
        """
        used: list[tuple[int | None, ...]] = []
        first = optimiser.state[self._trained[0][0]]
        if first.get("step") is not self._steps:  # another optimiser, or a restored one
            self._steps = first["step"].clone() if first else torch.zeros(())
        for p, *_ in self._trained:
            slot = optimiser.state[p]
            if not slot:
                slot["exp_avg"], slot["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
            slot["step"] = self._steps
            used.append(tuple(map(_address, (p, p.grad, slot["exp_avg"], slot["exp_avg_sq"]))))
        if used != self._adam_addresses:  # they stay where they are from step to step
            if any(None in each for each in used):
                raise ValueError("a step of Adam needs the gradient that loss_and_grad leaves")
            self._adam_addresses = used
            rows = zip(self._trained, used, strict=True)
            self._adam_tensors = (_Tensor * len(used))(
                *(
                    _Tensor(*each, _address(mean), _address(log_scale), p.numel())
                    for (p, mean, log_scale), each in rows
                )
            )
        self._steps += 1
        group = optimiser.param_groups[0]
        with self._lock:
            self._native.pb_adam(
                self._handle,
                self._adam_tensors,
                len(used),
                coefficient,
                group["lr"],
                *group["betas"],
                group["eps"],
                int(self._steps.item()),
                torch.get_num_threads(),
            )

    def _run(
        self,
        x: Tensor,
        y: Tensor,
        index: Tensor,
        seed: int,
        step: int,
        gradients: ctypes.Array[ctypes.c_void_p] | None,
        *,
        log_loss: bool = False,
    ) -> float:
        if index.dtype == torch.bool or not len(index):
            raise ValueError(f"examples are chosen by number, got {len(index)} of {index.dtype}")
        if x.shape != (len(y), self._inputs):
            raise ValueError(f"examples {tuple(x.shape)} do not fit {self._inputs} inputs")
        # Names keep what a pointer points to alive until the call is over.
        features, labels = x.float().contiguous(), y.float().contiguous()
        chosen, loss = index.long().contiguous(), ctypes.c_double()
        with self._lock:
            status = self._native.pb_run(
                self._handle,
                _pointers(self._parameters),
                gradients,
                features.data_ptr(),
                labels.data_ptr(),
                len(features),
                chosen.data_ptr(),
                len(chosen),
                seed,
                step,
                int(log_loss),
                torch.get_num_threads(),
                ctypes.byref(loss),
            )
        if status == 1:
            raise MemoryError(f"no memory for a step of {len(chosen)} examples")
        if status == 2:
            raise ValueError(f"an index does not fit {len(features)} examples")
        return loss.value


def _kind(network: Network) -> tuple[int, int] | None:
    """Activation and estimator of what `dense_network` makes; None for anything else."""
    if not isinstance(network.body, Dense):
        return None
    rules, head, baseline = network.body.rules, network.head, network.baseline
    *below, last = rules
    straight = all(rule is hidden.sign_straight for rule in rules)
    signs = all(rule is hidden.sign for rule in below)
    if head in (heads.aggregated, heads.aggregated_classes):
        for rule, activation in ((hidden.relu, _RELU), (hidden.sigmoid, _SIGMOID)):
            if all(r is rule for r in rules):
                return activation, _MARGINAL
        if straight:
            return _SIGN, _STRAIGHT_THROUGH
        if signs and last is hidden.sign and baseline is no_baseline:
            return _SIGN, _MARGINAL
        if signs and last is hidden.sign and baseline is leave_one_out:
            return _SIGN, _LEAVE_ONE_OUT
    if head is heads.differenced and signs and last is hidden.sign_straight:
        return (_SIGN, _LOCAL_EXPECTATION) if not below or baseline is leave_one_out else None
    return None


def _gaussians(network: Network) -> list[Gaussian]:
    layers = [*network.body.layers, network.layer] if isinstance(network.body, Dense) else []
    return [g for y in layers for g in (y.weight, y.bias)]


def _parameters(network: Network) -> list[Tensor]:
    """Layer by layer: means of weights and of biases, then their log-scales."""
    pairs = _gaussians(network)
    return [
        t
        for weight, bias in zip(pairs[::2], pairs[1::2], strict=True)
        for t in (weight.mean, bias.mean, weight.log_scale, bias.log_scale)
    ]


def _pointers(tensors: list[Tensor] | list[Tensor | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(_address(t) for t in tensors))


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _declared(native: ctypes.CDLL) -> ctypes.CDLL:
    pointer, number = ctypes.c_void_p, ctypes.c_int
    word, long = ctypes.c_uint64, ctypes.c_int64
    native.pb_open.argtypes = [number, pointer, number, number, number, number]
    native.pb_open.restype = pointer
    native.pb_close.argtypes = [pointer]
    native.pb_close.restype = None
    native.pb_run.argtypes = [
        *[pointer] * 5,
        long,
        pointer,
        number,
        *[word] * 2,
        *[number] * 2,
        pointer,
    ]
    native.pb_run.restype = number
    native.pb_adam.argtypes = [
        *(pointer, pointer, number, ctypes.c_float),
        *[ctypes.c_double] * 4,
        *(long, number),
    ]
    native.pb_adam.restype = None
    for name in ("pb_normals", "pb_words"):
        function = getattr(native, name)
        function.argtypes = [word, word, word, pointer, long]
        function.restype = None
    return native
