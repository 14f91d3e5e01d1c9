"""One writer at a time: others are told who it is, and the dead hold nothing."""

import os
import socket
import threading

import pytest

from pacbayes import Settings, folders
from pacbayes.folders import preparation
from pacbayes.folders.leases import BusyError, writing
from pacbayes.folders.preparation import prepare, prior_steps

SETTINGS = Settings.of(
    "fast", "relu", widths=(3,), epochs=2, evaluate_every=1, prior_fraction=0.5, prior_epochs=2
)


def in_a_thread(act):
    found = []

    def run():
        try:
            found.append(act())
        except ValueError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_a_second_writer_is_told_who_the_first_is(tmp_path, source):
    data = source.load()
    with writing(tmp_path / "a"):
        refused = in_a_thread(lambda: prepare(tmp_path / "a", SETTINGS, source, data))
        assert isinstance(refused, BusyError)
        assert f"by process {os.getpid()} on {socket.gethostname()};" in str(refused)
        assert "\n" not in str(refused)
        assert prepare(tmp_path / "a", SETTINGS, source, data)  # the holder may
    run = in_a_thread(lambda: prepare(tmp_path / "a", SETTINGS, source, data))
    assert not (run.folder / "writer").exists()


def test_training_holds_the_folder_until_it_ends(tmp_path, source):
    data = source.load()
    run = prepare(tmp_path / "a", SETTINGS, source, data)
    steps = folders.train_run(run, data)
    next(steps)
    assert isinstance(in_a_thread(lambda: list(folders.train_run(run, data))), BusyError)
    steps.close()
    assert in_a_thread(lambda: list(folders.train_run(run, data)))


def test_the_dead_hold_nothing(tmp_path):
    child = os.fork()
    if child == 0:
        held = writing(tmp_path / "a")
        held.__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "a" / "writer").exists()
    with writing(tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()


def test_a_folder_made_for_a_failure_is_removed_and_another_stays(tmp_path):
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "new" / "a", tmp_path / "there"):
        with pytest.raises(ValueError, match="no"), writing(place):
            raise ValueError("no")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_only_a_teacher_that_finished_seals_a_prior(tmp_path, source, monkeypatch):
    """Its checkpoint was removed by somebody else meanwhile."""
    data = source.load()
    for _ in prior_steps(tmp_path / "a", SETTINGS, source, data):
        pass
    original = preparation._teacher

    def disturbed(folder, *rest):
        (folder / "learning.safetensors").unlink(missing_ok=True)
        return original(folder, *rest)

    monkeypatch.setattr(preparation, "prior_steps", lambda *_, **__: iter(()))
    monkeypatch.setattr(preparation, "_teacher", disturbed)
    with pytest.raises(RuntimeError, match="has not finished learning"):
        prepare(tmp_path / "a", SETTINGS, source, data)
    assert not (tmp_path / "a" / "run.json").exists()
