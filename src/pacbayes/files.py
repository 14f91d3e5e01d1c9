"""Files that are whole or absent, that notice damage, and that never run code when loaded."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

__all__ = [
    "DamagedFileError",
    "file_sha256",
    "load_json",
    "load_record",
    "load_tensors",
    "save_json",
    "save_tensors",
    "tensors_sha256",
]

Record = TypeVar("Record")


class DamagedFileError(ValueError):
    """A file that is not what was written."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Any = None) -> None:
    """Tensors and a JSON record as one safetensors file, its digest in the header, atomically."""
    write_atomically(path, _serialised(tensors, record))


def tensors_sha256(tensors: Mapping[str, Tensor], record: Any = None) -> str:
    """Of the file that `save_tensors` would write."""
    return hashlib.sha256(_serialised(tensors, record)).hexdigest()


def _serialised(tensors: Mapping[str, Tensor], record: Any) -> bytes:
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record)
    # One key only: safetensors writes several in no fixed order, and equal runs have equal bytes.
    header = json.dumps({"record": text, "sha256": _digest(whole, text)})
    content: bytes = save(whole, {"pacbayes": header})
    return content


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """What `save_tensors` wrote.

    Raises:
        DamagedFileError: the file is cut short, altered, or not of this kind.
    """
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {}).get("pacbayes", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
    text = header.get("record", "")
    if header.get("sha256") != _digest(tensors, text):
        raise DamagedFileError(f"{path} is damaged: its contents do not match its digest")
    return tensors, json.loads(text)


def save_json(path: Path, record: Any) -> None:
    """A record as indented JSON, atomically."""
    write_atomically(path, (json.dumps(record, indent=2) + "\n").encode())


def load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def load_record(kind: type[Record], path: Path) -> Record:
    """The one record in a JSON file, as the dataclass it was written from."""
    return parsed(kind, load_json(path), path)


def parsed(kind: type[Record], record: Any, path: Path) -> Record:
    """What was read from a file, as the dataclass it was written from."""
    try:
        return kind(**record)
    except TypeError as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """The old file or the new one, whatever happens in between; leaves nothing half-written."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_sha256(path: Path) -> str:
    """What `sha256sum` prints."""
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
    hasher = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        hasher.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return hasher.hexdigest()
