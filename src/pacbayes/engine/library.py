"""Find the build of the C library for this processor, and run engines on it.

An engine knows widths, activations and arrays of parameters. What these mean is up to the callers:
`engine.network` for the library's own networks, and `paper.baselines`.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import weakref
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from pacbayes.engine.interface import Activation, Estimator, Status, Step, load

__all__ = ["Engine", "address", "available", "library", "unfit", "why_missing"]

_BUILDS = {"AVX512": ["avx512", "avx2"], "AVX2": ["avx2"]}  # best first
_ARM = ("aarch64", "arm64")
_Pointers: TypeAlias = "ctypes.Array[ctypes.c_void_p]"
_Alive = tuple[Tensor, Tensor, Tensor]  # features, labels, index
_MOST_SAMPLES = 2**31 - 1  # more do not fit a C int; the engine itself refuses far fewer


@cache
def library() -> ctypes.CDLL | None:
    """Return the widest build that this processor runs, or None if there is none."""
    return _search()[0]


def available() -> bool:
    """Return whether the native engine can be used here."""
    return library() is not None


def why_missing() -> str:
    """Return the reason why no build can be used; empty if one can."""
    return _search()[1]


def _search() -> tuple[ctypes.CDLL | None, str]:
    capability = torch.backends.cpu.get_cpu_capability()
    builds = ["neon"] if platform.machine() in _ARM else _BUILDS.get(capability, [])
    if not builds:
        return None, f"the native engine needs AVX2, AVX-512 or ARM; PyTorch reports {capability}"
    why = "the native engine was not built; without a compiler, PyTorch is used"
    paths = [Path(__file__).parent / f"libengine-{build}.so" for build in builds]
    for path in filter(Path.exists, paths):
        try:
            return load(path), ""
        except ImportError as error:
            why = str(error)
    return None, why


def unfit(tensors: Iterable[Tensor], parameters: Iterable[Tensor]) -> str | None:
    """Return why the engine cannot use these tensors, or None if it can."""
    if not available():
        return "the native engine is not available on this machine (see pacbayes info)"
    parameters = list(parameters)
    if not all(p.requires_grad for p in parameters):
        return "the native engine needs parameters that are all trained, none frozen"
    for t in (*tensors, *parameters):
        if t.dtype != torch.float32 or t.device.type != "cpu":
            return "the native engine needs float32 networks and data on the CPU"
    if not all(p.is_contiguous() for p in parameters):
        return "the native engine needs contiguous parameters"
    return None


class Engine:
    """Run steps at T samples.

    Holds scratch space, and refers to the parameters without copying them. Random numbers come
    from streams keyed by (seed, step, chunk) and partial sums are added in a fixed order, so
    results do not depend on the number of threads.

    Args:
        widths: of the inputs, the hidden layers and the output.
        parameters: four float32 tensors per layer: the means of weights (out, in) and of biases,
            then the log-scales of both, which are single numbers unless scales are learned.
        least_samples: the smallest number of samples that gives a gradient.
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
            raise ValueError("the native engine is not available on this machine")
        if samples < 1:
            raise ValueError(f"samples must be at least 1, got {samples}")
        self._native, self.samples, self._estimator = native, samples, estimator
        self._least_samples = least_samples
        self._lock = threading.Lock()  # one step at a time uses the scratch space
        self._inputs, self._parameters = widths[0], list(parameters)
        numbers = (ctypes.c_int32 * len(widths))(*widths)
        kind = (activation, estimator, int(learned))
        self._handle = native.pb_open(len(widths) - 2, numbers, *kind, min(samples, _MOST_SAMPLES))
        if not self._handle:
            raise MemoryError(f"no memory for the native engine at {samples} samples; use fewer")
        # Not at exit, when a thread may still be in a step; the system frees the memory then.
        weakref.finalize(self, native.pb_close, self._handle).atexit = False

    def loss(self, x: Tensor, y: Tensor, index: Tensor, seed: int, step: int) -> float:
        """Return the sum over the indexed examples of the linear loss of F̂*_Q."""
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
        """Return the same sum, and put the gradient of its mean into every parameter's `grad`.

        Args:
            log_loss: take the gradient of the mean of −ln(1 − loss) instead.
        """
        gradients = self._gradients(log_loss=log_loss)
        return self._run(x, y, index, seed, step, gradients, log_loss=log_loss)

    def _gradients(self, *, log_loss: bool) -> _Pointers:
        """Return where a training step's gradient goes: every parameter's `grad`."""
        if self._estimator is Estimator.REINFORCE and log_loss:
            raise ValueError("native REINFORCE has no log loss; train on the linear loss")
        if self.samples < self._least_samples:
            raise ValueError(f"leave-one-out needs at least 2 samples, got {self.samples}")
        for p in self._parameters:
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        return _pointers([p.grad for p in self._parameters])

    def _run(
        self,
        x: Tensor,
        y: Tensor,
        index: Tensor,
        seed: int,
        step: int,
        gradients: _Pointers | None,
        *,
        log_loss: bool = False,
    ) -> float:
        job, alive = self._job(x, y, index, seed, step, gradients, log_loss=log_loss)
        with self._lock:
            status = self._native.pb_run(self._handle, job)
        self._check(status, job, alive)
        loss: float = job.loss
        return loss

    def _job(
        self,
        x: Tensor,
        y: Tensor,
        index: Tensor,
        seed: int,
        step: int,
        gradients: _Pointers | None,
        *,
        log_loss: bool,
    ) -> tuple[Step, _Alive]:
        """Return what a step is told, and the tensors whose memory it points to."""
        if index.dtype == torch.bool or not len(index):
            raise ValueError(
                f"index must list the numbers of examples, got {len(index)} of {index.dtype}"
            )
        if x.shape != (len(y), self._inputs):
            raise ValueError(
                f"the engine needs examples of shape ({len(y)}, {self._inputs}), one row per label,"
                f" got {tuple(x.shape)}"
            )
        features, labels = x.float().contiguous(), y.float().contiguous()
        chosen = index.long().contiguous()
        job = Step(
            parameters=_pointers(self._parameters),
            gradients=gradients,
            features=features.data_ptr(),
            labels=labels.data_ptr(),
            index=chosen.data_ptr(),
            examples=len(features),
            seed=seed,
            number=step,
            count=len(chosen),
            log_loss=log_loss,
            threads=torch.get_num_threads(),
        )
        return job, (features, labels, chosen)

    def _check(self, status: int, job: Step, alive: _Alive) -> None:
        """Raise an error if a step failed."""
        if status == Status.OUT_OF_MEMORY:
            raise MemoryError(f"no memory for a step of {job.count} examples; use a smaller batch")
        if status == Status.BAD_INDEX:
            _, _, chosen = alive
            raise ValueError(
                f"index must lie between 0 and {job.examples - 1}, got values from"
                f" {chosen.min().item()} to {chosen.max().item()}"
            )


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's memory; None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def _pointers(tensors: Sequence[Tensor | None]) -> _Pointers:
    return (ctypes.c_void_p * len(tensors))(*(address(t) for t in tensors))
