"""Finished runs in one file per column, in place of their folders."""

import json
import shutil
from dataclasses import asdict, replace

import pytest

from faults.calls import CHANGES, die, disturbed, in_a_child, listed
from pacbayes.files import save_json
from pacbayes.paper.columns import chosen
from pacbayes.paper.execution import attempt
from pacbayes.paper.store import Reset, Store, pack
from pacbayes.report import report
from pacbayes.training.loop import Evaluation

MLP, PBG = chosen("mlp", "digits", 3), chosen("pbg", "digits", 3)
COURSE = (
    Evaluation(5, 0.1, 1.0, 0.2, 1.0, 0.1, 1.0),
    Evaluation(10, 0.07, 2.0, 0.1, 1.0, 0.1, 2.0),
)
DIVERGED = "FloatingPointError: training diverged in epoch 1"


def runs_of(c, count):
    return [replace(c, repeat=i + 1) for i in range(count)]


@pytest.fixture
def filled(tmp_path, summarised):
    """Make a store of finished runs."""

    def fill(runs, name="store", **changes):
        store = Store(tmp_path / name)
        for c in runs:
            with store.lease(c):
                save_json(store.place(c) / "history.json", [asdict(e) for e in COURSE])
                save_json(store.place(c) / "resets.json", [asdict(Reset(1, 2.0, "diverged"))])
                store.finish(c, summarised(bound=0.1 * c.repeat, **changes))
        return store

    return fill


def archives(store):
    return {p.name: p.read_bytes() for p in (store.folder / "runs").glob("*.jsonl")}


def said(store, runs):
    """All that a store says of runs."""
    return [(store.state(c), store.summary(c), store.history(c), store.failure(c)) for c in runs]


def test_an_archive_says_what_the_folders_said(filled, tmp_path):
    runs = [*runs_of(MLP, 3), *runs_of(PBG, 2)]
    store, failed = filled(runs[:-1]), runs[-1]
    with store.lease(failed):
        store.fail(failed, DIVERGED)
    before, begun, done = said(store, runs), store.configurations(), store.count_finished()
    report(store.folder, tmp_path / "before.html")
    files = {p.stem: p.read_text() for p in store.place(runs[0]).iterdir()}
    packed = pack(store)
    assert (packed.runs, packed.added, packed.removed, packed.kept) == (5, 5, 5, 0)
    assert sorted(p.name for p in (store.folder / "runs").iterdir()) == ["mlp.jsonl", "pbg.jsonl"]
    assert said(store, runs) == before
    assert before[-1] == ("failed", None, None, DIVERGED)
    assert store.settled(failed)
    assert (store.configurations(), store.count_finished()) == (begun, done)
    report(store.folder, tmp_path / "after.html")
    assert (tmp_path / "before.html").read_text() == (tmp_path / "after.html").read_text()
    lines = (store.folder / "runs" / "mlp.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == sorted(c.key for c in runs[:3])
    (line,) = (line for line in lines if runs[0].key in line)
    assert {k: v for k, v in json.loads(line).items() if k != "key"} == {
        name: json.loads(text) for name, text in files.items()
    }


def test_a_run_in_an_archive_is_not_made_again(filled):
    store = filled(runs_of(MLP, 1))
    pack(store)
    assert attempt(runs_of(MLP, 1)[0], store, lambda *_: pytest.fail("made")) == "done"
    assert [p.name for p in (store.folder / "runs").iterdir()] == ["mlp.jsonl"]


def test_a_worker_sees_what_was_packed_since_it_looked(filled, summarised):
    first, second = runs_of(MLP, 2)
    store = filled([first])
    pack(store)
    assert (store.state(first), store.state(second)) == ("done", "waiting")
    with store.lease(second):
        store.finish(second, summarised())
    pack(store)
    assert [store.state(c) for c in (first, second)] == ["done", "done"]


def test_what_is_not_finished_or_has_other_files_stays(filled):
    done, begun, failed, old = runs_of(MLP, 4)
    store = filled([done])
    (store.place(done) / "checkpoint-0.safetensors").write_bytes(b"weights")
    with store.lease(begun):
        pass
    with store.lease(failed):
        store.fail(failed, "OSError: no space left")
    shutil.copytree(store.place(done), store.place(old))  # the name is not its configuration's
    before = sorted((store.folder / "runs").rglob("*"))
    packed = pack(store)
    assert (packed.runs, packed.added, packed.removed, packed.kept) == (1, 1, 0, 1)
    after = sorted((store.folder / "runs").rglob("*"))
    assert [p.name for p in after if p not in before] == ["mlp.jsonl"]
    assert [p for p in before if p not in after] == []
    assert pack(store).added == 0
    assert [store.state(c) for c in (done, begun, failed)] == ["done", "waiting", "failed"]


def test_folders_of_another_store_are_added_to_the_archive(filled):
    runs = [*runs_of(MLP, 6), *runs_of(PBG, 1)]
    whole, ours, theirs = filled(runs, "whole"), filled(runs[::2], "a"), filled(runs[1:], "b")
    for store in (whole, ours):
        pack(store)
    shutil.copytree(theirs.folder / "runs", ours.folder / "runs", dirs_exist_ok=True)
    packed = pack(ours)
    assert (packed.runs, packed.added, packed.removed) == (7, 3, 6)  # three were in both
    assert archives(ours) == archives(whole)


def test_a_run_that_differs_from_the_archive_is_an_error_and_nothing_changes(filled):
    first, second = runs_of(MLP, 2)
    store, other = filled([first]), filled([first, second], "other", epoch=6)
    pack(store)
    shutil.copytree(other.folder / "runs", store.folder / "runs", dirs_exist_ok=True)
    before = sorted((store.folder / "runs").rglob("*")), archives(store)
    with pytest.raises(ValueError, match=rf"{first.key} .*different contents"):
        pack(store)
    assert (sorted((store.folder / "runs").rglob("*")), archives(store)) == before


def test_after_a_kill_at_any_call_no_run_is_lost_and_the_next_call_ends_it(filled, tmp_path):
    runs = runs_of(MLP, 2)
    pack(filled(runs[:1]))
    store = filled(runs[1:])
    before = said(store, runs)

    def copied(name):
        """A store of its own name: what was read of another is remembered by name and inode."""
        shutil.copytree(store.folder, tmp_path / name)
        return Store(tmp_path / name), ("reproduce", "pack", "--out", tmp_path / name)

    work, command = copied("whole")
    in_a_child(lambda: listed(command, tmp_path / "calls"))
    want, names = archives(work), json.loads((tmp_path / "calls").read_text())
    changes = [i for i, name in enumerate(names) if name in CHANGES]
    assert {"write", "replace", "unlink", "rmdir"} <= {names[i] for i in changes}
    for at in changes:
        work, command = copied(str(at))
        struck = in_a_child(lambda at=at, command=command: disturbed(command, at, die))
        assert struck is None
        assert said(work, runs) == before, names[at]
        pack(work)
        assert archives(work) == want
        assert [p.name for p in (work.folder / "runs").iterdir()] == ["mlp.jsonl"], names[at]


def edited(change):
    """A function that changes the first line's record."""

    def edit(text):
        first, *rest = text.splitlines(keepends=True)
        record = json.loads(first)
        change(record)
        return "".join([json.dumps(record) + "\n", *rest])

    return edit


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: text[:-30], "line 2"),
        (lambda text: "<<<<<<< ours\n" + text, "line 1"),
        (lambda text: "[]\n" + text, "it is not a run"),
        (lambda text: text + "\xff\n", "line 3"),
        (lambda text: text + '{"key": "mlp-1"}\n', "not a finished run of mlp"),
        (lambda text: text + text.splitlines()[0].replace("120.0", "1.0"), "differs about mlp-"),
        (edited(lambda r: r.update(key="pbg-1")), "not a finished run of mlp"),
        (edited(lambda r: r.update(key=1)), "not a finished run of mlp"),
        (edited(lambda r: r.update(weights=1)), "it is not a run"),
        (edited(lambda r: r.pop("configuration")), "not a finished run of mlp"),
        (edited(lambda r: r["configuration"].update(column="pbg")), "not a finished run of mlp"),
        (edited(lambda r: r["configuration"].update(colour="red")), "colour"),
        (edited(lambda r: r.pop("summary")), "not a finished run of mlp"),
        (edited(lambda r: r.update(summary=None)), "None is not an object"),
        (edited(lambda r: r["summary"].update(bound="low")), "bound"),
        (edited(lambda r: r["history"][1].pop("kl")), "kl"),
        (edited(lambda r: r.update(history={})), "history is not a list"),
        (edited(lambda r: r.update(error=3)), "error is not a text"),
    ],
)
@pytest.mark.parametrize("what", ["table1", "status", "pack"])
def test_a_damaged_line_ends_in_one_line(what, damage, why, filled, run_cli):
    store = filled(runs_of(MLP, 2))
    pack(store)
    path = store.folder / "runs" / "mlp.jsonl"
    path.write_text(damage(path.read_text()), encoding="latin-1")
    before = archives(store)
    options = () if what == "pack" else ("--columns", "mlp", "--dataset", "digits", "--epochs", 3)
    as_is = ("--as-is",) if what == "table1" else ()
    code, out, err = run_cli("reproduce", what, *options, *as_is, "--out", store.folder)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{path}, line " in err
    assert why in err
    assert archives(store) == before


def test_reproduce_makes_what_is_missing_beside_an_archive(run_cli, tmp_path):
    asked = ("--columns", "mlp", "--dataset", "digits", "--epochs", "1", "--repeats")
    here = ("--out", tmp_path / "store")
    assert run_cli("reproduce", "table1", *asked, "1", *here)[0] == 0
    shutil.rmtree(next((tmp_path / "store" / "runs").iterdir()) / "lease", ignore_errors=True)
    code, out, _ = run_cli("reproduce", "pack", *here)
    assert (code, out.splitlines()[0].split()[0]) == (0, "1")
    assert out.splitlines()[1].startswith("0 folders removed, 1 kept")  # it has a checkpoint
    shutil.rmtree(next(p for p in (tmp_path / "store" / "runs").iterdir() if p.is_dir()))
    code, _, err = run_cli("reproduce", "table1", *asked, "2", *here)
    assert (code, "1 of 2 runs to make" in err) == (0, True)
    (folder,) = (p for p in (tmp_path / "store" / "runs").iterdir() if p.is_dir())
    assert json.loads((folder / "configuration.json").read_text())["repeat"] == 2
    code, out, _ = run_cli("reproduce", "pack", *here, "--json")
    assert json.loads(out) == {"runs": 2, "added": 1, "removed": 0, "kept": 1}


def test_pack_refuses_options_of_a_sweep_and_folders_that_are_no_stores(run_cli, tmp_path):
    code, _, err = run_cli("reproduce", "pack", "--out", tmp_path, "--columns", "mlp")
    assert (code, "pack takes every finished run" in err) == (2, True)
    code, _, err = run_cli("reproduce", "pack", "--out", tmp_path / "none")
    assert (code, "is not a store of runs" in err) == (2, True)
