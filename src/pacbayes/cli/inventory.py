"""Take stock of this machine: versions, the engine, cores, cached data, extras."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import pacbayes
from pacbayes.data.idx import cache_folder
from pacbayes.engine import library as native_library
from pacbayes.extras import EXTRAS, missing
from pacbayes.folders.versions import processor

__all__ = ["Inventory", "take_inventory"]


@dataclass(frozen=True)
class Inventory:
    """Everything that results and speed depend on.

    Attributes:
        native: the engine's instruction set, such as avx512; None without a native engine.
        why_torch: why PyTorch is used instead of the native engine, if it is.
        cached: size of each data set in the cache, in bytes.
        extras: whether the packages of each optional extra are installed.
    """

    versions: dict[str, str]
    platform: str
    native: str | None
    why_torch: str | None
    cores: int
    threads: int
    cache: str
    cached: dict[str, int]
    extras: dict[str, bool]


def take_inventory() -> Inventory:
    """Collect the facts; nothing is changed."""
    native = _native()
    return Inventory(
        versions={
            "pacbayes": pacbayes.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        platform=f"{platform.system()} {platform.release()}, {platform.machine()}, {processor()}",
        native=native,
        why_torch=None if native else native_library.why_missing(),
        cores=_cores(),
        threads=torch.get_num_threads(),
        cache=str(cache_folder()),
        cached=_cached(cache_folder()),
        extras={name: not missing(name) for name in EXTRAS},
    )


def _native() -> str | None:
    """Return the instruction set of the native engine, if there is one."""
    library = native_library.library()
    return None if library is None else Path(library._name).stem.removeprefix("libengine-")


def _cores() -> int:
    """Return the number of cores this process may use; a container may have fewer."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _cached(folder: Path) -> dict[str, int]:
    """Return the sizes of the folders in the cache, as far as it can be read."""
    found = {}
    with suppress(OSError):
        for place in sorted(folder.iterdir()):
            if place.is_dir():
                found[place.name] = _size(place)
    return found


def _size(folder: Path) -> int:
    sizes = []
    with suppress(OSError):
        for file in folder.rglob("*"):
            sizes.append(file.stat().st_size if file.is_file() else 0)
    return sum(sizes)
