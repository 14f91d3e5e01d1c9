"""Devices that PyTorch computes on: which there are, and what moves between them."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = [
    "CPU",
    "available",
    "check_together",
    "device_named",
    "device_of",
    "exact_device",
    "in_float64",
    "wide",
]

CPU = torch.device("cpu")
_BEST_FIRST = ("cuda", "mps", "cpu")
_WITHOUT_FLOAT64 = ("mps",)
_Module = TypeVar("_Module", bound=nn.Module)


def available() -> list[str]:
    """Return the kinds of devices of this machine, the fastest first."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [kind for kind in _BEST_FIRST if there.get(kind, True)]


def device_named(name: str | torch.device) -> torch.device:
    """Return the device of a name: cpu, cuda, mps, cuda:1 or, for the fastest there is, auto.

    Raises:
        ValueError: this machine has no such device.
    """
    there = available()
    try:
        device = torch.device(there[0] if name == "auto" else name)
    except RuntimeError:
        raise ValueError(f"device must be cpu, cuda, mps or auto, got {name!r}") from None
    if device.type not in there:
        raise ValueError(
            f"device {name} is not available on this machine, which has {', '.join(there)}"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name} is not available: there are {torch.cuda.device_count()}")
    return device


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's parameters; a module without any is on the CPU."""
    first = next(module.parameters(), None)
    return CPU if first is None else first.device


def check_together(module: nn.Module, *tensors: Tensor) -> None:
    """Raise ValueError unless tensors are on the device of a module's parameters."""
    device = device_of(module)
    for tensor in tensors:
        if tensor.device != device:
            raise ValueError(
                f"the network is on {device} and its examples are on {tensor.device}; "
                f"move them with .to({str(device)!r})"
            )


def exact_device(device: torch.device) -> torch.device:
    """Return where float64 is computed: on the device itself, or on the CPU if it has none."""
    return CPU if device.type in _WITHOUT_FLOAT64 else device


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float64, with its gradient; on the CPU if its device has no float64."""
    return tensor.to(exact_device(tensor.device)).double()


def in_float64(module: _Module) -> _Module:
    """Convert a module to float64, in place; it moves to the CPU if its device has no float64."""
    return module.to(exact_device(device_of(module))).double()
