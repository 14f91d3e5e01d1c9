"""What there is on this machine: versions, the engine, cores, cached data, extras."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

import pacbayes
from pacbayes.data.idx import cache_folder
from pacbayes.engine import library as native_library
from pacbayes.extras import EXTRAS, missing
from pacbayes.runs.versions import processor

__all__ = ["Inventory", "take_inventory"]


@dataclass(frozen=True)
class Inventory:
    """What results and speed depend on.

    Attributes:
        native: the engine's instruction set, as avx512; None where torch serves alone.
        why_torch: the reason, where it does.
        cached: bytes of each data set in the cache.
        extras: whether what an optional extra needs is installed.
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
    """Look around; nothing is changed."""
    library = native_library.library()
    native = None if library is None else Path(library._name).stem.removeprefix("libengine-")
    return Inventory(
        versions={
            "pacbayes": pacbayes.__version__,
            "torch": torch.__version__,
            "numpy": version("numpy"),
            "python": platform.python_version(),
        },
        platform=f"{platform.system()} {platform.release()}, {platform.machine()}, {processor()}",
        native=native,
        why_torch=None if native else _why_torch(),
        cores=_cores(),
        threads=torch.get_num_threads(),
        cache=str(cache_folder()),
        cached=_cached(cache_folder()),
        extras={name: not missing(name) for name in EXTRAS},
    )


def _why_torch() -> str:
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in ("AVX2", "AVX512"):
        return f"it needs AVX2 or AVX-512, and torch says {capability}"
    if not list(Path(native_library.__file__).parent.glob("libengine-*.so")):
        return "it was not built, for want of a C compiler when pacbayes was installed"
    return "its build is not for this system"


def _cores() -> int:
    """Those this process may use, which in a container are fewer than there are."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _cached(folder: Path) -> dict[str, int]:
    if not folder.is_dir():
        return {}
    return {
        place.name: sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }
