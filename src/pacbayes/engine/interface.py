"""The C library's interface, as c/interface.h declares it.

Change both files together and increase the number in both (`ABI` here, `PB_ABI` there): a library
with another number is refused, because the two would read each other's memory wrongly.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum
from pathlib import Path

__all__ = [
    "ABI",
    "Activation",
    "AdamTensor",
    "Estimator",
    "Evaluation",
    "Status",
    "Step",
    "Training",
    "Update",
    "load",
]

ABI = 4


class Activation(IntEnum):
    """`enum activation`."""

    RELU = 0
    SIGMOID = 1
    SIGN = 2


class Estimator(IntEnum):
    """`enum estimator`."""

    MARGINAL = 0
    LEAVE_ONE_OUT = 1
    LOCAL_EXPECTATION = 2
    STRAIGHT_THROUGH = 3
    REINFORCE = 4
    TREE = 5


class Status(IntEnum):
    """`enum status`, the result of `pb_run`, `pb_train` and `pb_evaluate`."""

    DONE = 0
    OUT_OF_MEMORY = 1
    BAD_INDEX = 2
    BAD_SCORES = 3


class Step(ctypes.Structure):
    """`pb_step`: one training step or, without gradients, one evaluation."""

    _fields_ = (
        ("parameters", POINTER(c_void_p)),
        ("gradients", POINTER(c_void_p)),
        ("features", c_void_p),
        ("labels", c_void_p),
        ("index", c_void_p),
        ("examples", c_int64),
        ("seed", c_uint64),
        ("number", c_uint64),
        ("count", c_int32),
        ("log_loss", c_int32),
        ("threads", c_int32),
        ("loss", c_double),
    )


class AdamTensor(ctypes.Structure):
    """`pb_tensor`: one tensor that Adam updates."""

    _fields_ = (
        ("value", c_void_p),
        ("gradient", c_void_p),
        ("moment1", c_void_p),
        ("moment2", c_void_p),
        ("prior_mean", c_void_p),
        ("prior_log_scale", c_void_p),
        ("count", c_int64),
    )


class Update(ctypes.Structure):
    """`pb_update`: one step of Adam."""

    _fields_ = (
        ("tensors", POINTER(AdamTensor)),
        ("steps", c_int64),
        ("coefficient", c_double),
        ("rate", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("epsilon", c_double),
        ("count", c_int32),
        ("threads", c_int32),
    )


class Training(ctypes.Structure):
    """`pb_training`: training steps one after the other, each followed by Adam."""

    _fields_ = (
        ("first", Step),
        ("adam", Update),
        ("counts", POINTER(c_int32)),
        ("rates", POINTER(c_double)),
        ("coefficients", POINTER(c_double)),
        ("losses", POINTER(c_double)),
        ("steps", c_int32),
        ("done", c_int32),
    )


class Evaluation(ctypes.Structure):
    """`pb_evaluation`: draws of a network's output in double precision."""

    _fields_ = (
        ("parameters", POINTER(c_void_p)),
        ("units", POINTER(c_double)),
        ("widths", POINTER(c_int32)),
        ("features", c_void_p),
        ("labels", c_void_p),
        ("places", c_void_p),
        ("out", c_void_p),
        ("examples", c_int64),
        ("first_draw", c_int64),
        ("draws", c_int64),
        ("key", c_uint64),
        ("step", c_double),
        ("depth", c_int32),
        ("activation", c_int32),
        ("threads", c_int32),
    )


_STREAM = [c_uint64, c_uint64, c_uint64, c_void_p, c_int64]  # seed, step, chunk, out, count
_FUNCTIONS = {  # result and arguments
    "pb_open": (c_void_p, [c_int, POINTER(c_int32), c_int, c_int, c_int, c_int]),
    "pb_close": (None, [c_void_p]),
    "pb_run": (c_int, [c_void_p, POINTER(Step)]),
    "pb_adam": (None, [c_void_p, POINTER(Update)]),
    "pb_train": (c_int, [c_void_p, POINTER(Training)]),
    "pb_evaluate": (c_int, [POINTER(Evaluation)]),
    "pb_keyed": (None, [c_uint64, c_uint64, *[c_void_p] * 4, c_int64]),
    "pb_cumulative": (None, [c_void_p, c_void_p, c_int64]),
    "pb_near_cumulative": (None, [c_void_p, c_double, c_void_p, c_int64]),
    "pb_exponential": (None, [c_void_p, c_void_p, c_int64]),
    "pb_normals": (None, _STREAM),
    "pb_words": (None, _STREAM),
}


def load(path: Path) -> ctypes.CDLL:
    """Load the library and declare its functions.

    Raises:
        ImportError: it cannot be loaded, or it has another ABI number.
    """
    try:
        native = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path.name} cannot be loaded on this system: {error}") from error
    found = native.pb_abi() if hasattr(native, "pb_abi") else "none"
    if found != ABI:
        raise ImportError(
            f"{path.name} is from another version of pacbayes (ABI number {found}, needed {ABI});"
            " install pacbayes again to rebuild it"
        )
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(native, name)
        function.restype, function.argtypes = result, arguments
    return native
