"""A short version of the fault campaign, `make faults`."""

import os

import pytest

from faults import damaged, interrupted, scene, together


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


def test_two_processes_do_not_spoil_a_folder(place):
    done, fault = together.case(1, place / "scene", place / "work")
    assert fault is None, done


def test_damaged_files_end_in_one_line(place):
    for i in range(30):
        done, fault = damaged.case(i, place / "scene", place / "work")
        assert fault is None, f"{i}: {done}"
