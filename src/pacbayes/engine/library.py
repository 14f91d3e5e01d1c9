"""The C library: which build of it this processor runs, and an engine of it.

An engine knows widths, activations and arrays of parameters; what these mean is for those who open
one, `engine` for the library's own networks and `baselines.pbgnet`.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["Activation", "Engine", "Estimator", "address", "available", "library", "unfit"]


class Activation(IntEnum):
    """As engine.h has them."""

    RELU = 0
    SIGMOID = 1
    SIGN = 2


class Estimator(IntEnum):
    """As engine.h has them."""

    MARGINAL = 0
    LEAVE_ONE_OUT = 1
    LOCAL_EXPECTATION = 2
    STRAIGHT_THROUGH = 3
    REINFORCE = 4
    TREE = 5


@cache
def library() -> ctypes.CDLL | None:
    """The widest build this processor can run, or None where there is none."""
    capability = torch.backends.cpu.get_cpu_capability()
    builds = {"AVX512": ["avx512", "avx2"], "AVX2": ["avx2"]}.get(capability, [])
    for build in builds:
        try:
            return _declared(ctypes.CDLL(str(Path(__file__).parent / f"libengine-{build}.so")))
        except OSError:  # not built, or not for this system
            continue
    return None


def available() -> bool:
    return library() is not None


def unfit(tensors: Iterable[Tensor], parameters: Iterable[Tensor]) -> str | None:
    """Why the engine cannot take these, whatever they are; None where it can."""
    if not available():
        return "the native engine is not built for this machine"
    parameters = list(parameters)
    if not all(p.requires_grad for p in parameters):
        return "the native engine takes networks of which nothing is frozen"
    for t in (*tensors, *parameters):
        if t.dtype != torch.float32 or t.device.type != "cpu":
            return "the native engine takes float32 networks and data on the CPU"
    if not all(p.is_contiguous() for p in parameters):
        return "the native engine takes contiguous parameters"
    return None


class Engine:
    """Steps at T samples; holds scratch space, and parameters by reference.

    Random numbers come from streams keyed by (seed, step, chunk) and partial sums are fixed, so
    results do not depend on the number of threads.

    Args:
        widths: of the inputs, the hidden layers and the output.
        parameters: four a layer, float32: means of weights (out, in) and of biases, log-scales of
            both, which are single numbers where scales are not learned.
        least_samples: that a gradient takes.
    """

    def __init__(
        self,
        widths: Sequence[int],
        activation: Activation,
        estimator: Estimator,
        samples: int,
        parameters: Sequence[Tensor],
        *,
        learned: bool,
        least_samples: int = 1,
    ) -> None:
        native = library()
        if native is None:
            raise ValueError("the native engine is not built for this machine")
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        self._native, self.samples, self._estimator = native, samples, estimator
        self._least_samples = least_samples
        self._lock = threading.Lock()  # one step at a time uses the scratch space
        self._inputs, self._parameters = widths[0], list(parameters)
        numbers = (ctypes.c_int32 * len(widths))(*widths)
        self._handle = native.pb_open(
            len(widths) - 2, numbers, activation, estimator, int(learned), samples
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
        if self._estimator is Estimator.REINFORCE and log_loss:
            raise ValueError("native REINFORCE does not know the log loss")
        if self.samples < self._least_samples:
            raise ValueError(f"leave-one-out needs at least 2 samples, got {self.samples}")
        for p in self._parameters:
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        gradients = _pointers([p.grad for p in self._parameters])
        return self._run(x, y, index, seed, step, gradients, log_loss=log_loss)

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


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _pointers(tensors: Sequence[Tensor | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(address(t) for t in tensors))


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
