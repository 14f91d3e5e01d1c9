"""Show versions, the engine, cached data and extras."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING

from pacbayes.cli.options import AsJson

if TYPE_CHECKING:
    from pacbayes.cli.inventory import Inventory

__all__ = ["info"]


def info(as_json: AsJson = False) -> None:
    """Show versions, the engine, cached data and extras.

    pacbayes info

    pacbayes info --json
    """
    from pacbayes.cli.inventory import take_inventory

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
