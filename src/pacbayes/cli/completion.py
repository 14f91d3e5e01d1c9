"""Shell completion of data sets, columns and run folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

__all__ = ["columns", "datasets", "runs"]

_DEPTH = 3  # levels of folders to search
_MOST = 2000  # folders to look into, because the shell waits


def datasets(incomplete: str) -> list[str]:
    """Return names of data sets; if none fits, the shell itself offers files."""
    from pacbayes.data import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def columns(incomplete: str) -> list[str]:
    """Complete the last of several columns, separated by commas."""
    from pacbayes.paper.columns import COLUMNS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in COLUMNS if name.startswith(last)]


def runs(incomplete: str) -> list[str]:
    """Return run folders whose path begins with the text."""
    start = Path(os.path.expanduser(incomplete + "_")).parent
    before, slash, _ = incomplete.rpartition("/")
    found = (f"{before}{slash}{path.relative_to(start)}" for path in _run_folders(start))
    return sorted(path for path in found if path.startswith(incomplete))


def _run_folders(start: Path) -> Iterator[Path]:
    """Yield run folders, nearest first."""
    for folder in islice(_folders_below(start), _MOST):
        if os.path.exists(folder / "run.json"):
            yield folder


def _folders_below(start: Path) -> Iterator[Path]:
    """Yield folders level by level, without hidden ones."""
    level = [start]
    for _ in range(_DEPTH):
        below: list[Path] = []
        for folder in chain.from_iterable(map(_folders_in, level)):
            below.append(folder)
            yield folder
        level = below


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [Path(e.path) for e in os.scandir(folder) if e.is_dir() and e.name[0] != "."]
    except OSError:  # not allowed to look, or gone
        return []
