"""Code of a user's own that builds networks: copied into the run, and run only if it is allowed.

A run folder may come from anybody, so code in it never runs by itself. Naming a file to `train`
allows its content on this machine, and so does `allow`. The allowed hashes are in the cache folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pacbayes.data.idx import cache_folder
from pacbayes.files import DamagedFileError, write_atomically

__all__ = ["FILE", "allow", "allowed_copy", "save_copy"]

FILE = "network.py"


def allow(path: Path) -> str:
    """Allow a file's content to run on this machine; return its SHA-256."""
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    folder = cache_folder() / "allowed"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / sha256, f"{path.resolve()}\n".encode())
    return sha256


def save_copy(folder: Path, path: Path) -> None:
    """Copy a file that builds a network into the run folder."""
    write_atomically(folder / FILE, path.read_bytes())


def allowed_copy(folder: Path, sha256: str) -> Path:
    """Return the run's own copy of the code; refuse another file, or one that is not allowed."""
    path = folder / FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise DamagedFileError(f"{path} is missing or is not the code that the run was made with")
    if not (cache_folder() / "allowed" / sha256).is_file():
        raise ValueError(
            f"{path} is code that was not allowed to run here; read it, and if you trust it, run: "
            f"pacbayes allow {folder}"
        )
    return path
