"""A short version of the fault campaign, `make faults`."""

import errno
import os

import pytest

from faults import damaged, interrupted, scene, together
from pacbayes import files


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("faults"), os.getcwd()
    scene.build(folder / "scene", whole=False)
    yield folder
    os.chdir(before)


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "failing"])
def test_a_disturbed_command_ends_well_the_next_time(place, kill):
    for i in range(2):
        done, fault = interrupted.case(i, place / "scene", place / "work", kill=kill)
        assert fault is None, f"{i}: {done}"


@pytest.mark.parametrize("code", [None, errno.ENOSPC], ids=["killed", "failing"])
@pytest.mark.parametrize("atomic", [True, False])
def test_a_write_that_is_not_atomic_is_seen(place, monkeypatch, code, atomic):
    def careless(path, content):
        with open(path, "wb") as file:
            file.write(content)

    if not atomic:
        monkeypatch.setattr(files, "_replace", careless)
    monkeypatch.setattr(interrupted, "_KNOWN", {})
    act = next(act for act in interrupted.ACTS if act.holds and act.folder == "arrays")
    names = interrupted.undisturbed(act, place / "scene", place / "work")[1]
    at = len(names) - 1 - names[::-1].index("write")  # the certificate
    fault = interrupted.struck(act, at, code, place / "scene", place / "work")[1]
    assert (fault is None) == atomic


def test_two_processes_do_not_spoil_a_folder(place):
    done, fault = together.case(1, place / "scene", place / "work")
    assert fault is None, done


def test_damaged_files_end_in_one_line(place):
    for i in range(30):
        done, fault = damaged.case(i, place / "scene", place / "work")
        assert fault is None, f"{i}: {done}"
