"""Files are whole or absent, notice damage, and never run code."""

import errno
import os
import sys

import pytest
import torch

from pacbayes import files
from pacbayes.files import (
    DamagedFileError,
    file_sha256,
    load_json,
    load_tensors,
    new_folder,
    recover,
    save_json,
    save_tensors,
)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {
        "x": torch.randn(3, 4),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "state": torch.arange(9, dtype=torch.uint8),
    }
    record = {"epoch": 3, "value": 0.1 + 0.2, "none": None}
    save_tensors(path, tensors, record)
    return path, tensors, record


def test_what_was_saved_is_loaded_bit_for_bit(saved):
    path, tensors, record = saved
    loaded, loaded_record = load_tensors(path)
    assert loaded_record == record
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)


def test_any_flipped_byte_is_noticed(saved):
    path, _, _ = saved
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises((DamagedFileError, OSError)):
            load_tensors(path)


def test_the_digest_covers_names_types_and_shapes():
    one = files._digest({"x": torch.zeros(4)}, "")
    assert one != files._digest({"x": torch.zeros(2, 2)}, "")
    assert one != files._digest({"x": torch.zeros(4, dtype=torch.int32)}, "")
    assert one != files._digest({"y": torch.zeros(4)}, "")


def test_a_cut_file_and_a_foreign_file_are_noticed(saved):
    path, _, _ = saved
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DamagedFileError, match="damaged"):
        load_tensors(path)
    torch.save({"x": torch.zeros(2)}, path)  # a pickle, which must not be opened
    with pytest.raises(DamagedFileError, match="damaged"):
        load_tensors(path)


def test_json_round_trip_and_damage(tmp_path):
    path = tmp_path / "a.json"
    save_json(path, {"a": 0.1})
    assert load_json(path) == {"a": 0.1}
    path.write_text('{"a": 0.')
    with pytest.raises(DamagedFileError, match=r"a\.json is damaged"):
        load_json(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    save_json(path, "old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_json(path, "new")
    assert load_json(path) == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_file_hash_is_the_ordinary_one(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert file_sha256(path).startswith("ba7816bf8f01cfea")


def test_json_that_is_nested_too_deeply_is_damaged(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(DamagedFileError, match=r"deep\.json"):
        load_json(path)


def replaced(folder):
    with new_folder(folder, ["*"]) as building:
        (building / "old").touch()
    with new_folder(folder, ["*"]) as building:
        (building / "new").touch()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")
def test_a_folder_is_replaced_in_one_step(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_replace_in_steps", None)
    replaced(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "new"]


def test_a_folder_is_replaced_in_two_steps_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchanged", lambda a, b: False)
    replaced(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "new"]


def test_a_folder_whose_replacement_fails_is_back_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_exchanged", lambda a, b: False)
    folder, original = tmp_path / "a", os.replace
    with new_folder(folder, ["*"]) as building:
        (building / "old").touch()

    def failing(a, b):
        if b == folder and "part" in str(a):
            raise OSError(errno.ENOSPC, "no space left")
        original(a, b)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="no space"), new_folder(folder, ["*"]):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "old"]


@pytest.mark.parametrize("step", [1, 2])
def test_a_folder_that_was_being_replaced_comes_back(tmp_path, monkeypatch, step):
    monkeypatch.setattr(files, "_exchanged", lambda a, b: False)
    folder, done = tmp_path / "a", []
    with new_folder(folder, ["*"]) as building:
        (building / "old").touch()
    original = os.replace

    def dying(*arguments):
        done.append(arguments)
        if len(done) == step:
            raise KeyboardInterrupt
        original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", dying)
        with pytest.raises(KeyboardInterrupt), new_folder(folder, ["*"]) as building:
            (building / "new").touch()
    recover(folder)
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
