"""What this machine has, and whose code may run on it."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import starmap
from pathlib import Path

from pacbayes.cli.options import AsJson, RunFolder
from pacbayes.extras import EXTRAS, missing

__all__ = ["Inventory", "allow", "info", "take_inventory"]


def info(as_json: AsJson = False) -> None:
    """Show versions, the engine, cached data and extras.

    pacbayes info

    pacbayes info --json
    """
    found = take_inventory()
    if as_json:
        print(json.dumps(asdict(found)))
        return
    for name, text in _lines(found).items():
        print(f"{name:<9} {text}")


def _lines(found: Inventory) -> dict[str, str]:
    cores, threads = _counted(found.cores, "core"), _counted(found.threads, "thread")
    cached = [f"{name} ({size / 1e6:.0f} MB)" for name, size in found.cached.items()]
    return {
        **found.versions,
        "platform": found.platform,
        "engine": f"native, {found.native}" if found.native else f"PyTorch ({found.why_torch})",
        "cores": f"{cores}, {threads} used by PyTorch",
        "cache": f"{_with_tilde(found.cache)}: {', '.join(cached) or 'empty'}",
        "extras": ", ".join(starmap(_extra, found.extras.items())),
    }


def _counted(count: int, thing: str) -> str:
    return f"1 {thing}" if count == 1 else f"{count} {thing}s"


def _extra(name: str, installed: bool) -> str:
    return name if installed else f"{name} not installed (pip install 'pacbayes[{name}]')"


def _with_tilde(path: str) -> str:
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return path
    return f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else path


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
    import numpy as np
    import torch

    import pacbayes
    from pacbayes.data.idx import cache_folder
    from pacbayes.engine import library
    from pacbayes.folders.record import processor

    engine = library.library()
    native = None if engine is None else Path(engine._name).stem.removeprefix("libengine-")
    return Inventory(
        versions={
            "pacbayes": pacbayes.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        platform=f"{platform.system()} {platform.release()}, {platform.machine()}, {processor()}",
        native=native,
        why_torch=None if native else library.why_missing(),
        cores=_cores(),
        threads=torch.get_num_threads(),
        cache=str(cache_folder()),
        cached=_cached(cache_folder()),
        extras={name: not missing(name) for name in EXTRAS},
    )


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


def allow(run: RunFolder) -> None:
    """Allow a run's own code to run on this machine.

    Read it first: it is in the run folder.
    A run made with --network FILE.py:FUNCTION has a copy of the file, network.py. Training allows
    the file that you name; the code in a folder from somebody else does not run until you allow it.

    pacbayes allow runs/theirs

    pacbayes allow downloads/residual
    """
    from pacbayes import folders
    from pacbayes.training.blueprint import CODE

    path = run / CODE
    if not path.is_file():
        raise ValueError(f"{run} has no {CODE}: its network needs no code of its own")
    print(f"Allowed {path}, SHA-256 {folders.allow(path)}")
