"""Versions: what bit-identical results depend on, beside the seed."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

import pacbayes
from pacbayes.devices import CPU
from pacbayes.engine.library import available

__all__ = ["processor", "versions"]


def versions(device: torch.device = CPU) -> dict[str, str]:
    """Return everything that the last bits of a result depend on; a device if not the CPU."""
    other = {} if device.type == "cpu" else {"device": _device_name(device)}
    return {
        "pacbayes": pacbayes.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),  # MKL rounds sums differently on each make
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "engine": "native" if available() else "torch",
        **other,
    }


def _device_name(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    return f"cuda {torch.version.cuda}, {torch.cuda.get_device_name(device)}"


def processor() -> str:
    """Return the processor's name, as the system gives it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
