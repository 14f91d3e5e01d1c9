"""A lease has one holder, also where files cannot be read or appear at the last moment."""

import os
from pathlib import Path

import pytest

from pacbayes.folders.leases import Lease


@pytest.fixture
def unreadable(monkeypatch):
    """Make every reading of a file fail while the list is not empty."""
    now, original = [], Path.read_text

    def read(path, *given):
        if now:
            raise PermissionError(13, "permission denied", str(path))
        return original(path, *given)

    monkeypatch.setattr(Path, "read_text", read)
    return now


def test_a_lease_that_is_unreadable_at_first_is_touched_and_released(tmp_path, unreadable):
    lease = Lease(tmp_path / "lease", patience=60)
    unreadable.append(True)
    with lease.held() as ours:
        assert ours
        unreadable.clear()
        assert lease.alive
    assert list(tmp_path.iterdir()) == []


def test_a_lease_that_cannot_be_released_is_an_error(tmp_path, unreadable):
    lease = Lease(tmp_path / "lease", patience=60)
    with pytest.raises(PermissionError), lease.held():
        unreadable.append(True)
    unreadable.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["lease"]


def test_whoever_comes_second_to_create_a_lease_does_not_hold_it(tmp_path, monkeypatch):
    """Another process creates the file after this one saw none."""
    lease, link = Lease(tmp_path / "lease", patience=60), os.link

    def late(part, file):
        monkeypatch.setattr(os, "link", link)
        Path(file).write_text("somebody else's token")
        link(part, file)

    monkeypatch.setattr(os, "link", late)
    with lease.held() as ours:
        assert not ours
    assert [path.read_text() for path in tmp_path.iterdir()] == ["somebody else's token"]
