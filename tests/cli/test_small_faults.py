"""Values that make no sense are refused at the door, in one line."""

import os
from pathlib import Path

import numpy as np
import pytest

from pacbayes.cli import info
from pacbayes.data import DataError, DataSource, idx
from pacbayes.files import remove_parts, write_atomically


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--out", ""),
        ("train", "--out="),
        ("train", "--out", "a", "--tensorboard", ""),
        ("verify", ""),
    ],
)
def test_empty_values_are_refused(run_cli, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(*arguments)
    assert (code, out) == (2, "")
    assert "is empty" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_text_are_refused_before_anything_is_read(run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli("train", "--dataset", "digits", "--out", "q\udcff")
    assert (code, out, err) == (
        2,
        "",
        "error: 'q\\udcff' is not valid UTF-8; give a name that is\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("label", ["1_0", "\uff11\uff12", "-nan", "nan", "+NaN"])
def test_labels_that_only_look_like_numbers_are_refused(tmp_path, label):
    rows = [f"{i}.5,{label if i == 7 else 'no'}" for i in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    with pytest.raises(DataError, match="row 9, column 'y'"):
        DataSource(str(tmp_path / "a.csv")).load()


@pytest.mark.parametrize("cell", ["1_0", "\uff11\uff12"])
def test_features_that_only_look_like_numbers_are_refused(tmp_path, cell):
    rows = [f"{cell},{i}.5,{'yes' if i % 2 else 'no'}" for i in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["x,z,y", *rows]) + "\n")
    with pytest.raises(DataError, match="row 2, column 'x'"):
        DataSource(str(tmp_path / "a.csv")).load()


def test_labels_that_cannot_be_encoded_are_refused(tmp_path):
    y = np.array(["a", "b\ud800"] * 10)
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(20, 2)), y=y)
    with pytest.raises(DataError, match="is not valid text"):
        DataSource(str(tmp_path / "a.npz")).load()


@pytest.mark.parametrize(
    "option", ["--epochs", "--prior-epochs", "--evaluate-every", "--seed", "--batch-size", "-T"]
)
def test_absurd_numbers_are_refused(run_cli, csv, tmp_path, option):
    fraction = ("--prior-fraction", "0.5", option, 10**30)
    code, out, err = run_cli("train", "--dataset", csv, "--out", tmp_path / "a", *fraction)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "a").exists()


def test_absurd_epochs_of_a_sweep_are_refused(run_cli, tmp_path):
    sweep = ("reproduce", "table1", "--out", tmp_path / "a", "--epochs", 10**30)
    code, _, err = run_cli(*sweep)
    assert (code, err.count("\n")) == (2, 1)
    assert not (tmp_path / "a").exists()


def test_info_needs_no_home(run_cli, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("PACBAYES_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(homeless))
    code, out, err = run_cli("info")
    assert (code, err) == (0, "")
    assert "cache" in out


def test_info_reads_a_cache_as_far_as_it_can(monkeypatch, tmp_path):
    (tmp_path / "mnist").mkdir()

    def unreadable(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rglob", unreadable)
    assert info._cached(tmp_path) == {"mnist": 0}
    monkeypatch.setattr(Path, "iterdir", unreadable)
    assert info._cached(tmp_path) == {}


def test_a_mirror_that_fails_is_reported_at_once(caplog, tmp_path):
    def dead():
        raise OSError("timed out")

    sources = [("cache", dead), ("https://one", dead), ("npm package two", dead)]
    with pytest.raises(DataError) as error:
        idx.obtain("mnist", sources, lambda files: None, tmp_path, "by hand")
    assert "\n" not in str(error.value)
    assert [r.getMessage() for r in caplog.records] == [
        "https://one: timed out; trying the next source",
        "npm package two: timed out; trying the next source",
    ]


def test_a_failed_write_names_its_file_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.json'"):
        write_atomically(tmp_path / "a.json", b"1")
    assert list(tmp_path.iterdir()) == []


def test_files_of_killed_writers_are_removed_and_others_stay(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: os._exit(0))
        child = os.fork()
        if child == 0:
            write_atomically(tmp_path / "a.json", b"1")
        os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    living = tmp_path / left.name.replace(f"-{child}.", f"-{os.getpid()}.")
    elsewhere = tmp_path / ".a.json.x.00000000-1.part"
    for path in (living, elsewhere, tmp_path / ".hidden"):
        path.write_text("")
    remove_parts(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living, elsewhere, tmp_path / ".hidden"])
    os.utime(elsewhere, (0, 0))
    remove_parts(tmp_path)
    assert not elsewhere.exists()
