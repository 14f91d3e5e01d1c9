"""A store that many may fill at once."""

import os
import re
import threading
import time

import pytest

from pacbayes.files import DamagedFileError
from pacbayes.folders.leases import Lease
from pacbayes.paper.columns import chosen
from pacbayes.paper.store import Store

RUN = chosen("mlp", "digits", 3)


def test_one_at_a_time_holds_a_lease(tmp_path):
    store = Store(tmp_path)
    with store.lease(RUN) as first:
        assert first
        assert store.state(RUN) == "running"
        with store.lease(RUN) as second:
            assert not second
    assert store.state(RUN) == "waiting"
    with store.lease(RUN) as third:
        assert third


def test_of_many_who_ask_at_once_one_gets_it(tmp_path):
    """Also where a stale lease is in the way."""
    for stale in (False, True):
        store, got = Store(tmp_path / str(stale)), []
        go, asked = threading.Barrier(8), threading.Barrier(8)
        if stale:
            store.place(RUN).mkdir(parents=True)
            (store.place(RUN) / "lease").touch()
            os.utime(store.place(RUN) / "lease", (0, 0))

        def ask(store=store, got=got, go=go, asked=asked):
            go.wait()
            with store.lease(RUN) as ours:
                got.append(ours)
                asked.wait()  # nobody leaves before all have asked

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(got) <= 1
        assert stale or sum(got) == 1  # two who move a stale one may both have to ask again


def test_a_lease_that_nobody_touches_is_anybodys_and_one_that_is_touched_is_not(tmp_path):
    store = Store(tmp_path, patience=3.0)
    path = store.place(RUN) / "lease"
    with store.lease(RUN) as ours:
        assert ours
        first = path.stat().st_mtime
        deadline = time.monotonic() + 60
        while path.stat().st_mtime == first and time.monotonic() < deadline:
            time.sleep(0.1)
        assert path.stat().st_mtime > first  # it beats
        with store.lease(RUN) as other:
            assert not other
    path.touch()
    assert store.state(RUN) == "running"
    os.utime(path, (time.time() - 4,) * 2)
    assert store.state(RUN) == "waiting"
    with store.lease(RUN) as ours:
        assert ours


def test_states_and_what_failed(tmp_path, summarised):
    store = Store(tmp_path)
    with store.lease(RUN):
        store.fail(RUN, "no data")
    assert store.state(RUN) == "failed"
    assert store.failure(RUN) == "no data"
    with store.lease(RUN):
        store.finish(RUN, summarised(bound=0.5))
    assert store.state(RUN) == "done"
    assert store.failure(RUN) is None
    assert store.summary(RUN) == summarised(bound=0.5)


def test_a_lease_ends_with_its_run_even_if_that_fails(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(KeyError), store.lease(RUN):
        raise KeyError
    assert not (store.place(RUN) / "lease").exists()


def test_whoever_lost_a_lease_leaves_the_new_holders_alone(tmp_path):
    """A process that was suspended comes back when another has taken over."""
    store = Store(tmp_path, patience=0.6)
    path = store.place(RUN) / "lease"
    with store.lease(RUN):
        path.write_text("somebody else's")
        os.utime(path, (0, 0))
        time.sleep(0.3)  # a beat passes
        assert path.stat().st_mtime == 0
    assert path.read_text() == "somebody else's"


def test_a_lease_that_was_taken_since_we_looked_stays_its_holders(tmp_path, monkeypatch):
    """The stale lease is taken over, released and taken again before we create ours."""
    store = Store(tmp_path)
    store.place(RUN).mkdir(parents=True)
    path = store.place(RUN) / "lease"
    path.write_text("left")
    os.utime(path, (0, 0))
    created = Lease._created

    def late(self, *given):
        path.write_text("theirs")
        return created(self, *given)

    monkeypatch.setattr(Lease, "_created", late)
    with store.lease(RUN) as ours:
        assert not ours
    assert [file.name for file in path.parent.glob("*lease*")] == ["lease"]
    assert path.read_text() == "theirs"


def test_a_lease_that_appeared_since_we_looked_stays_its_holders(tmp_path, monkeypatch):
    store = Store(tmp_path)
    path = store.place(RUN) / "lease"
    path.parent.mkdir(parents=True)
    path.write_text("theirs")
    monkeypatch.setattr(Lease, "_files", lambda self: [])  # as it was when we looked
    with store.lease(RUN) as ours:
        assert not ours
    assert path.read_text() == "theirs"


def test_a_stale_lease_is_followed_by_another_and_goes_with_it(tmp_path):
    store = Store(tmp_path)
    path = store.place(RUN) / "lease"
    path.parent.mkdir(parents=True)
    for name in ("lease", "lease.9", "lease.10"):
        (path.parent / name).write_text("left")
        os.utime(path.parent / name, (0, 0))
    assert store.state(RUN) == "waiting"
    with store.lease(RUN) as ours:
        assert ours
        assert store.state(RUN) == "running"
        assert (path.parent / "lease.11").exists()
    assert not list(path.parent.glob("*lease*"))


def test_a_run_is_nobodys_while_somebody_writes_to_its_folder(tmp_path):
    """A killed worker's lease on the run may become stale before its lease on the folder does."""
    store = Store(tmp_path)
    file = store.place(RUN) / "writer"
    file.parent.mkdir(parents=True)
    file.write_text("elsewhere 1 pid:[1] token")
    assert store.state(RUN) == "running"
    with store.lease(RUN) as ours:
        assert not ours
    assert [path.name for path in file.parent.iterdir()] == ["writer"]
    os.utime(file, (0, 0))
    assert store.state(RUN) == "waiting"
    with store.lease(RUN) as ours:
        assert ours


def test_a_lease_from_the_future_is_stale_too(tmp_path):
    store = Store(tmp_path)
    store.place(RUN).mkdir(parents=True)
    path = store.place(RUN) / "lease"
    path.touch()
    os.utime(path, (time.time() + 86_400,) * 2)
    assert store.state(RUN) == "waiting"
    with store.lease(RUN) as ours:
        assert ours


def test_a_folder_where_no_lease_can_be_had_is_an_error_and_not_somebody_elses(
    tmp_path, monkeypatch
):
    """Else one would wait for ever: some file systems know no hard links."""

    def refused(*names):
        raise PermissionError(1, "Operation not permitted", names[1])

    store = Store(tmp_path)
    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(PermissionError), store.lease(RUN):
        pytest.fail("taken")
    assert [path.name for path in store.place(RUN).iterdir()] == []


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"learned": true}', "{", ""])
def test_a_summary_that_is_none_is_named(text, tmp_path):
    store = Store(tmp_path)
    store.place(RUN).mkdir(parents=True)
    path = store.place(RUN) / "summary.json"
    path.write_text(text)
    with pytest.raises(DamagedFileError, match=re.escape(str(path))):
        store.summary(RUN)
