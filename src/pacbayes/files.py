"""Read and write files: never half-written, checked for damage, and without running code."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import reprlib
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CLASSIFIER",
    "KERNEL",
    "NETWORK",
    "DamagedFileError",
    "best_of_scales",
    "check_replaceable",
    "damaged",
    "exclusive",
    "file_sha256",
    "json_in",
    "kind_of",
    "load_json",
    "load_record",
    "load_tensors",
    "load_versioned",
    "new_folder",
    "parsed",
    "recover",
    "remove_parts",
    "save_json",
    "save_tensors",
    "tensors_sha256",
]

Record = TypeVar("Record")
NETWORK, KERNEL, CLASSIFIER = "network", "kernel", "classifier"  # kinds of folders
_PART, _DAY = ".part", 86_400.0
_HERE, _EXCHANGE = -100, 2  # of Linux's renameat2: paths from here on, and both change places
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class DamagedFileError(ValueError):
    """Raised when a file is not what was written to it."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Any = None) -> None:
    """Write tensors and a JSON record to one safetensors file, with a digest in its header."""
    write_atomically(path, _serialised(tensors, record))


def tensors_sha256(tensors: Mapping[str, Tensor], record: Any = None) -> str:
    """Return the SHA-256 of the file that `save_tensors` would write."""
    return hashlib.sha256(_serialised(tensors, record)).hexdigest()


def _serialised(tensors: Mapping[str, Tensor], record: Any) -> bytes:
    from safetensors.torch import save

    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record)
    # One key only: safetensors writes several in any order, but equal runs must give equal bytes.
    header = json.dumps({"record": text, "sha256": _digest(whole, text)})
    content: bytes = save(whole, {"pacbayes": header})
    return content


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors and the record that `save_tensors` wrote.

    Raises:
        DamagedFileError: the file is truncated, altered, or was not written by `save_tensors`.
    """
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("pacbayes", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text, claimed = header["record"], header["sha256"]
        same, record = claimed == _digest(tensors, text), json.loads(text)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, *_MALFORMED) as error:
        raise damaged(path, error) from error
    if not same:
        raise damaged(path, "its contents do not match its digest")
    return tensors, record


def save_json(path: Path, record: Any) -> None:
    """Write a record as indented JSON."""
    write_atomically(path, (json.dumps(record, indent=2) + "\n").encode())


def load_json(path: Path) -> Any:
    """Return the contents of a JSON file; raise DamagedFileError if it is not JSON."""
    return json_in(path.read_bytes(), path)


def json_in(content: bytes, path: Path) -> Any:
    """Return what JSON from `path` says; raise DamagedFileError if it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from error


def load_versioned(path: Path, newest: int, oldest: int = 1) -> Any:
    """Return the contents of a JSON file; refuse formats that this version does not read."""
    record = load_json(path)
    found = record.get("format") if isinstance(record, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or oldest <= found <= newest:
        return record  # what is not a format at all is found with the other fields
    what = "update pacbayes" if found > newest else "make it again with this version"
    known = f"{newest}" if oldest == newest else f"{oldest} to {newest}"
    raise ValueError(f"{path} has format {found:d}, but this pacbayes reads {known}; {what}")


def kind_of(folder: Path) -> str:
    """Return what a folder holds, a network, a kernel network or a classifier, by its run.json.

    The first folders of networks did not name their kind. A folder that a kill left aside comes
    back.
    """
    path = folder / "run.json"
    if not folder.exists():
        recover(folder)
    if not path.is_file():
        below = [str(found.parent) for found in sorted(folder.glob("*/run.json"))]
        instead = f"; its runs are {', '.join(below)}" if below else ""
        raise ValueError(f"{folder} is not a run folder: it has no run.json{instead}")
    record = load_json(path)
    kind = record.get("kind", NETWORK) if isinstance(record, dict) else NETWORK
    if kind not in (NETWORK, KERNEL, CLASSIFIER):
        raise ValueError(f"{path}: kind {kind!r} is unknown; it may need a newer pacbayes")
    return str(kind)


def best_of_scales(folder: Path) -> Path:
    """Return a folder; if it has a run for each prior scale instead, the one with the least bound.

    Every certificate of such a run pays for all scales, so that the best may be chosen.
    """
    if not folder.exists():
        recover(folder)
    runs = [path.parent for path in sorted(folder.glob("scale-*/run.json"))]
    if not runs or (folder / "run.json").exists():
        return folder
    for run in runs:
        if not (run / "posterior.safetensors").exists():
            raise ValueError(f"{run} is not fully trained; run the same train command to resume it")
    return min(runs, key=_least_bound)


def _least_bound(run: Path) -> float:
    path = run / "history.json"
    try:
        return min(float(evaluation["bound"]) for evaluation in load_json(path))
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, error) from error


def load_record(kind: type[Record], path: Path) -> Record:
    """Return the record in a JSON file as the dataclass it was written from."""
    return parsed(kind, load_json(path), path)


def parsed(kind: type[Record], record: Any, path: Path) -> Record:
    """Return a record read from `path` as the dataclass it was written from.

    Raises:
        DamagedFileError: a field is missing, unknown or of another type.
    """
    if not isinstance(record, dict):
        raise damaged(path, f"{reprlib.repr(record)} is not an object with fields")
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(record.keys() - known):
        raise damaged(path, f"the field {unknown[0]!r} is unknown")
    try:
        types: TypeAdapter[Record] = _types_of(kind)  # type: ignore[arg-type]
        return types.validate_json(json.dumps(record), strict=True)
    except ValueError as error:  # of pydantic, or text that is not Unicode
        raise damaged(path, error) from error


@cache
def _types_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def damaged(path: Path, why: object) -> DamagedFileError:
    """Return the error that says in one line what is wrong with a file, and where if known."""
    if isinstance(why, ValidationError):
        first = why.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'as a whole'}: {first['msg']}"
    said = " ".join(str(why).split())
    return DamagedFileError(f"{path} is damaged: {said}; restore it from a copy or make it again")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: after a failure the old file is still there, unchanged."""
    try:
        _replace(path, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_part())
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):  # the error that counts is the first
            Path(name).unlink(missing_ok=True)
        raise


def remove_parts(folder: Path, name: str = "*") -> None:
    """Remove what writers that were killed have left in a folder.

    A temporary file names its machine and process. Those of other machines have a day.

    Args:
        name: pattern of the files or folders that were being written.
    """
    for path in folder.glob(f".{name}.*{_PART}"):
        with suppress(OSError):
            if _abandoned(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _part() -> str:
    """Return the end of a temporary file's name."""
    return f".{_machine()}-{os.getpid()}{_PART}"


def _machine() -> str:
    """Return a hash of the host and of the space in which its processes have their numbers."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{socket.gethostname()}{space}".encode()).hexdigest()[:8]


def _abandoned(path: Path) -> bool:
    machine, _, process = path.name.removesuffix(_PART).rpartition(".")[2].partition("-")
    if machine != _machine() or not process.isdecimal():
        return time.time() - path.stat().st_mtime > _DAY
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes out of the same section on a folder, where the system has such locks.

    It is for moments: the system releases the lock of a process that ends.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have none
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def new_folder(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `folder` in the end, or not at all.

    Args:
        own: patterns of the files that an earlier folder may have; one with others is refused.
    """
    recover(folder)
    check_replaceable(folder, own)
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_parts(folder.parent, folder.name)
    prefix, suffix = f".{folder.name}.", _part()
    building = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix, suffix=suffix))
    try:
        yield building
        building.chmod(0o777 & ~_umask())
        if not folder.exists():
            os.replace(building, folder)
        elif not _exchanged(building, folder):
            _replace_in_steps(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _exchanged(a: Path, b: Path) -> bool:
    """Exchange two folders in one step; return whether the system could."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    paths = os.fsencode(a), os.fsencode(b)
    return exchange is not None and exchange(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) == 0


def _replace_in_steps(building: Path, folder: Path) -> None:
    """Put a new folder in the place of an old one, which comes back if that fails."""
    os.replace(folder, _aside(folder))
    try:
        os.replace(building, folder)
    finally:
        recover(folder)


def recover(folder: Path) -> None:
    """Bring an old folder back if a kill came between the two steps of its replacement."""
    aside = _aside(folder)
    if aside.is_dir() and not folder.exists():
        os.replace(aside, folder)
    elif aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)


def _aside(folder: Path) -> Path:
    folder = folder.absolute()
    return folder.with_name(f".{folder.name}.old")


def check_replaceable(folder: Path, own: Collection[str]) -> None:
    """Raise ValueError if a folder has files of others, which must not be replaced."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give a folder")
    there = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if foreign := [name for name in there if not any(fnmatch(name, p) for p in own)]:
        raise ValueError(
            f"{folder} has other files ({', '.join(foreign[:3])}); choose an empty or a new folder"
        )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` prints it."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            hasher.update(chunk)
    return hasher.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    import torch

    hasher = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        hasher.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()
