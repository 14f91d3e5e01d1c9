"""Your own arrays, .npz files with arrays x and y, and the sizes that files claim.

Sizes are checked before memory is asked for.
"""

from __future__ import annotations

import lzma
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError, Floats, Table, check_features

__all__ = ["NPZ_ERRORS", "check_memory", "check_npz", "check_width", "read_arrays", "unpacked"]

_SHARE = 0.5  # of the available memory; features are copied once
NPZ_ERRORS = (  # whatever zipfile, its decompressors and NumPy's parser of headers raise
    *(OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, IndexError),
    *(ArithmeticError, NotImplementedError, RuntimeError, RecursionError, MemoryError),
    *(SyntaxError, tokenize.TokenError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def check_npz(path: Path, names: tuple[str, ...]) -> None:
    """Raise DataError if the named arrays of an .npz file would not fit in memory.

    A small file can claim any size, by compression or in the header of an array.
    """
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        found = [f"{name}.npy" for name in names if f"{name}.npy" in members]
        size = sum(max(_claimed(archive, name), members[name].file_size) for name in found)
    check_memory(size, f"{path}: its arrays", "split the file or use float32")


def check_memory(size: float, what: str, remedy: str = "split the file") -> None:
    """Raise DataError if so many bytes are more than half of the available memory."""
    if size > (limit := _SHARE * _available_memory()):
        raise DataError(
            f"{what} take {size / 2**30:.1f} GiB, more than half of the available "
            f"memory ({limit / 2**30:.1f} GiB); {remedy}"
        )


def unpacked(content: bytes, most: int) -> bytes:
    """Return a gzip file's content; raise DataError if it is longer than `most` bytes."""
    stream = zlib.decompressobj(wbits=31)
    result = stream.decompress(content, most + 1)
    if len(result) > most:
        raise DataError(f"a compressed file unpacks to more than the {most} bytes it should have")
    if not stream.eof:
        raise EOFError("a compressed file is cut short")
    return result


def _claimed(archive: zipfile.ZipFile, name: str) -> int:
    """Return the bytes of an array according to its header."""
    with archive.open(name) as file:
        read_header = _HEADERS.get(npy.read_magic(file))
        if read_header is None:
            raise ValueError(f"{name} has an unknown format")
        shape, _, dtype = read_header(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"{name} has the shape {shape}")
    return math.prod(shape) * max(1, dtype.itemsize)


def _available_memory() -> float:
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    kilobytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    if kilobytes:
        return 1024 * float(kilobytes[0])
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def check_width(x: Floats, width: int, where: str) -> None:
    """Raise DataError unless the examples have as many features as the network takes."""
    if x.shape[1] != width:
        raise DataError(f"{where}: {x.shape[1]} features, but the network takes {width}")


def read_arrays(path: Path) -> Table:
    """Read an .npz file with an array x of features and perhaps an array y of labels.

    Raises:
        DataError: the file is missing, malformed, empty, or has entries that are not numbers.
    """
    if path.is_dir():
        raise DataError(f"{path}: a folder, not a file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    arrays = _load(path)
    if "x" not in arrays:
        raise DataError(f"{path}: no array named x; save features as x and labels as y")
    x, labels = arrays["x"], arrays.get("y")
    _check_numbers(path, x)
    if labels is not None and labels.shape != (len(x),):
        raise DataError(f"{path}: y must have shape ({len(x)},), got {labels.shape}")
    with np.errstate(over="ignore"):  # too large becomes infinite, which is refused by name
        flat = np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)
    check_features(flat, str(path))
    return Table(flat, labels, x.shape[1:])


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        check_npz(path, ("x", "y"))
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files if name in ("x", "y")}
    except DataError:
        raise
    except NPZ_ERRORS as error:
        raise DataError(f"{path}: not a readable .npz file ({_said(error)})") from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # a member that is not in NumPy's format
            raise DataError(f"{path}: {name} is not an array")
    return found


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _check_numbers(path: Path, x: NDArray[Any]) -> None:
    if x.dtype.kind not in "biuf":
        raise DataError(f"{path}: x must hold numbers, got {x.dtype}")
    if x.ndim == 0 or len(x) == 0:
        raise DataError(f"{path}: no examples; x has shape {x.shape}")
