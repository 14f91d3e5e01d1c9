"""Your own arrays, and everything that can be wrong with them."""

import contextlib
import io
import zipfile

import numpy as np
import pytest

from pacbayes import Settings, certify, dense_network, train
from pacbayes.data import DataError, check_width, load, read_arrays


def test_npz_flattens_images_and_may_lack_labels(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(12).reshape(3, 2, 2), y=np.array([0, 1, 0]))
    table = read_arrays(tmp_path / "a.npz")
    assert table.x.shape == (3, 4)
    assert table.labels.tolist() == [0, 1, 0]
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 2)))
    assert read_arrays(tmp_path / "b.npz").labels is None


def test_images_of_an_npz_file_are_trained_and_certified_in_rows(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    x = rng.random((200, 3, 4, 6)) + 2 * y.reshape(-1, 1, 1, 1)
    np.savez(tmp_path / "images.npz", x=x, y=np.array(["cat", "dog", "elk"])[y])
    np.savez(tmp_path / "test.npz", x=x[:20] + 0.1, y=np.array(["cat", "dog", "elk"])[y[:20]])
    data = load(str(tmp_path / "images.npz"), test=tmp_path / "test.npz")
    images, labels = data.images()
    assert images.shape == (200, 3, 4, 6)
    assert np.array_equal(images.numpy(), x.astype(np.float32))
    assert data.images("test")[0].shape == (20, 3, 4, 6)
    rows, _ = data.tensors()
    assert rows.shape == (200, 72)
    network = dense_network(72, (5,), classes=3)
    train(network, rows, labels, Settings.of("fast", classes=3, widths=(5,), epochs=3))
    assert certify(network, rows, labels, samples=5).n == 200


def test_bad_npz_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    for arrays, message in [
        ({"z": np.zeros(2)}, "no array named x"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, r"y must have shape \(3,\)"),
        ({"x": np.array([["a", "b"]])}, "must hold numbers"),
        ({"x": np.zeros((0, 2))}, "no examples"),
        ({"x": np.array(3.0)}, "no examples"),
        ({"x": np.array([[1.0, np.nan]])}, "nan in example 0, feature 1"),
    ]:
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            read_arrays(path)
    np.save(tmp_path / "array.npy", np.zeros((3, 2)))
    for content in (b"not a zip", b"", (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a readable"):
            read_arrays(path)


def test_pickled_objects_are_never_opened(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{"evil": 1}], dtype=object))
    with pytest.raises(DataError, match="not a readable"):
        read_arrays(tmp_path / "a.npz")


def test_a_folder_is_not_a_file_and_a_wrong_width_is_named(tmp_path):
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(DataError, match="a folder, not a file"):
        read_arrays(tmp_path / "a.npz")
    with pytest.raises(DataError, match="no such file"):
        read_arrays(tmp_path / "b.npz")
    with pytest.raises(DataError, match="here: 2 features, but the network takes 5"):
        check_width(np.zeros((3, 2), np.float32), 5, "here")


HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
DAMAGED = {
    "a tokenizer's error": b"'''",
    "an open bracket": HEADER[:-6],
    "many brackets": b"(" * 300,
    "a text": b"hello",
    "a negative shape": HEADER.replace(b"3, 2", b"-3, 2"),
    "a shape that is a number": HEADER.replace(b"(3, 2)", b"6"),
    "objects": HEADER.replace(b"<f4", b"|O"),
    "a type that is none": HEADER.replace(b"<f4", b"zz"),
    "a size beyond memory": HEADER.replace(b"3, 2", b"99999999999, 99999999"),
}


def npy(header):
    header = header.ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24)


@pytest.mark.parametrize("header", DAMAGED.values(), ids=DAMAGED)
def test_damaged_headers_are_refused(tmp_path, header):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy(header))
    with pytest.raises(DataError, match=r"a\.npz"):
        read_arrays(path)


@pytest.mark.parametrize("name", ["x", "x.npy"])
def test_members_that_are_not_arrays_are_refused(tmp_path, name):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"not an array")
    with pytest.raises(DataError, match=r"a\.npz"):
        read_arrays(path)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_flipped_bytes_are_read_or_refused(tmp_path, method):
    path, buffer = tmp_path / "a.npz", io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("x.npy", npy(HEADER))
    for i in range(len(buffer.getvalue())):
        content = bytearray(buffer.getvalue())
        content[i] ^= 0xFF
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            read_arrays(path)
