"""Sizes that files claim, checked before memory is asked for."""

from __future__ import annotations

import lzma
import math
import os
import tokenize
import zipfile
import zlib
from pathlib import Path

from numpy.lib import format as npy

from pacbayes.data.dataset import DataError

__all__ = ["NPZ_ERRORS", "check_memory", "check_npz", "unpacked"]

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
