"""The grid first, then the winners' repeats; and how far a sweep is."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from pacbayes.folders.leases import Clock
from pacbayes.paper.columns import chosen, grid
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep, dask_runs, finished, local_runs, slurm_script, status


def filled(tmp_path, column, value):
    """A store whose grid is done, with summaries by `value` of the configuration."""
    store = Store(tmp_path)
    for c in grid(column, "digits", 2):
        with store.lease(c):
            store.finish(c, value(c))
    return store


def test_the_papers_choice_needs_no_search(tmp_path):
    sweep, store = Sweep(["mlp", "pbg"], "digits", 2, repeats=3), Store(tmp_path)
    assert sweep.searched() == []
    runs = sweep.repeated(store)
    assert [(c.column, c.repeat) for c in runs] == [
        *(("mlp", 1), ("pbg", 1), ("mlp", 2), ("pbg", 2), ("mlp", 3), ("pbg", 3))
    ]


def test_the_winner_has_the_least_bound(tmp_path, summarised):
    def value(c):
        bound = 0.5 - 0.1 * (c.samples == 50) - 0.05 * (c.learning_rate == 0.01)
        return summarised(bound=bound, train_linear=0.1 * c.samples)

    sweep = Sweep(["fix-lambda-relu"], "digits", 2, repeats=2, search="paper")
    store = filled(tmp_path, "fix-lambda-relu", value)
    assert len(sweep.searched()) == 12
    winner = sweep.winner("fix-lambda-relu", store)
    assert (winner.samples, winner.learning_rate) == (50, 0.01)
    assert [c.repeat for c in sweep.repeated(store)] == [1, 2]


def test_where_bounds_are_vacuous_or_missing_the_training_loss_decides(tmp_path, summarised):
    for i, bound in enumerate((1.0, 0.9999, None)):

        def value(c, bound=bound):
            found = bound and bound - c.learning_rate / 1e4  # its last digits say the opposite
            return summarised(bound=found, train_linear=c.learning_rate, learned=c.samples > 1)

        store = filled(tmp_path / str(i), "reinforce-sign", value)
        sweep = Sweep(["reinforce-sign"], "digits", 2, repeats=1, search="paper")
        winner = sweep.winner("reinforce-sign", store)
        assert winner.learning_rate == 0.001
        assert winner.samples > 1  # what did not learn does not win


def test_there_is_no_winner_before_the_grid_is_done(tmp_path, summarised):
    sweep = Sweep(["mlp"], "digits", 2, repeats=1, search="paper")
    store = Store(tmp_path)
    points = sweep.searched()
    for c in points[:-1]:
        with store.lease(c):
            store.finish(c, summarised(train_linear=c.learning_rate))
    assert sweep.winner("mlp", store) is None
    assert sweep.repeated(store) == []
    with store.lease(points[-1]):
        store.fail(points[-1], "OSError: no space left")
    assert sweep.winner("mlp", store) is None  # it might have been the best
    with store.lease(points[-1]):
        store.fail(points[-1], "FloatingPointError: training diverged in epoch 1")
    assert sweep.winner("mlp", store).learning_rate == 0.01  # of those that did not fail


def test_a_repeat_that_never_learned_is_followed_by_another_but_not_for_ever(tmp_path, summarised):
    sweep, store = Sweep(["mlp", "pbg"], "digits", 2, repeats=2), Store(tmp_path)

    def end(column, repeat, *, learned):
        (c,) = (c for c in sweep.repeated(store) if (c.column, c.repeat) == (column, repeat))
        with store.lease(c):
            store.finish(c, summarised(learned=learned))

    end("mlp", 1, learned=False)
    end("pbg", 1, learned=True)
    runs = [(c.column, c.repeat) for c in sweep.repeated(store)]
    assert runs == [("mlp", 1), ("pbg", 1), ("mlp", 2), ("pbg", 2), ("mlp", 3)]
    for repeat in (2, 3, 4):
        end("mlp", repeat, learned=False)
    assert [c.repeat for c in sweep.repeated(store) if c.column == "mlp"] == [1, 2, 3, 4]


def test_a_repeat_that_diverged_is_followed_by_another_too(tmp_path, summarised):
    sweep, store = Sweep(["mlp"], "digits", 2, repeats=1), Store(tmp_path)
    (first,) = sweep.repeated(store)
    with store.lease(first):
        store.fail(first, "OSError: no space left")
    assert sweep.repeated(store) == [first]  # it may be made yet
    with store.lease(first):
        store.fail(first, "FloatingPointError: training diverged in epoch 1")
    again, second = sweep.repeated(store)
    assert (again, second.repeat) == (first, 2)
    with store.lease(second):
        store.finish(second, summarised())
    assert sweep.repeated(store) == [first, second]


def test_what_is_drawn_is_the_first_repeat_that_learned(tmp_path, summarised):
    sweep, store = Sweep(["mlp", "pbg"], "digits", 2, repeats=2), Store(tmp_path)
    assert sweep.shown(store) == {}
    for c in sweep.repeated(store):
        with store.lease(c):
            store.finish(c, summarised(learned=c.repeat == 2))
    assert {name: c.repeat for name, c in sweep.shown(store).items()} == {"mlp": 2, "pbg": 2}


def end(store, c, summary):
    with store.lease(c):
        store.finish(c, summary)


def test_runs_are_counted_and_the_rest_is_timed_by_the_columns_mean(tmp_path, summarised):
    sweep, store = Sweep(["mlp", "pbg"], "digits", 2, repeats=4), Store(tmp_path)
    mlp = [c for c in sweep.repeated(store) if c.column == "mlp"]
    end(store, mlp[0], summarised(seconds=10.0))
    end(store, mlp[1], summarised(seconds=30.0))
    with store.lease(mlp[2]):
        found = status(sweep, store)
        assert (found.done, found.running, found.failed, found.waiting) == (2, 1, 0, 5)
        store.fail(mlp[2], "OSError: no space left")
    found = status(sweep, store)
    assert (found.done, found.running, found.failed, found.waiting) == (2, 0, 1, 5)
    assert found.failures == {mlp[2].key: "OSError: no space left"}
    assert found.seconds_left == pytest.approx(2 * 20.0)  # the one that failed is tried again
    assert found.unknown == 4


def test_a_run_that_was_ended_early_says_nothing_of_the_others_time(tmp_path, summarised):
    sweep, store = Sweep(["mlp"], "digits", 2, repeats=2), Store(tmp_path)
    first, second = sweep.repeated(store)
    end(store, first, summarised(seconds=1.0, learned=False))
    end(store, second, summarised(seconds=60.0))
    found = status(sweep, store)
    assert (found.done, found.waiting, found.seconds_left) == (2, 1, 60.0)


def test_what_diverged_is_not_left(tmp_path, summarised):
    sweep, store = Sweep(["mlp"], "digits", 2, repeats=0, search="paper"), Store(tmp_path)
    first, *others = sweep.searched()
    with store.lease(first):
        store.fail(first, "FloatingPointError: training diverged in epoch 1")
    for c in others:
        end(store, c, summarised())
    found = status(sweep, store)
    assert (found.done, found.failed, found.seconds_left, found.unknown) == (2, 1, 0.0, 0)


def test_repeats_that_no_search_has_settled_yet_are_counted(tmp_path):
    sweep, store = Sweep(["mlp", "pbg", "fast-relu"], "digits", 2, 10, "paper"), Store(tmp_path)
    assert status(sweep, store).waiting == 3 + 36 + 30
    assert status(sweep, store).unknown == 3 + 36 + 30


WORK = [
    replace(chosen(column, "digits", 4), samples=3, repeat=r)
    for column in ("mlp", "fix-lambda-relu", "fix-lambda-sign")
    for r in (1, 2)
]


def results(store, work=WORK):
    found = [store.summary(c) for c in work]
    return [None if s is None else replace(s, seconds=0.0, versions={}) for s in found]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("local"))
    states = dict(local_runs(WORK, store, workers=2))
    assert states == dict.fromkeys(WORK, "done")
    return results(store)


def test_local_runs_are_those_of_one_process(expected, tmp_path):
    store = Store(tmp_path)
    assert dict(local_runs(WORK[:2], store, workers=1)) == dict.fromkeys(WORK[:2], "done")
    assert results(store, WORK[:2]) == expected[:2]


COMMAND = "from pacbayes.cli import main; main()"
SWEEP = [
    "--dataset",
    "digits",
    "--epochs",
    "4",
    "--repeats",
    "2",
    "--columns",
    "mlp,fix-lambda-relu",
]


def test_killed_again_and_again_it_prints_the_same_table(tmp_path):
    def begun(folder):
        return set((tmp_path / folder).glob("runs/*/lease*"))

    def reproduce(folder, *, killed=False):
        arguments = ["reproduce", "table1", *SWEEP, "--out", str(tmp_path / folder)]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        while killed and not begun(folder):
            time.sleep(0.01)
            assert process.poll() is None
        if killed:
            os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        for lease in begun(folder):  # as if a minute had passed
            os.utime(lease, (0, 0))
        return out

    whole = reproduce("whole")
    for _ in range(3):
        reproduce("killed", killed=True)
        assert any(not (lease.parent / "summary.json").exists() for lease in begun("killed"))
    assert reproduce("killed") == whole
    assert "fix-lambda-relu" in whole


def leases(store):
    """Who is at which run, by the number of its process."""
    found = {}
    for path in store.folder.glob("runs/*/lease*"):
        with suppress(FileNotFoundError):  # it has just ended
            found[path.parent] = int(path.read_text().split()[1])
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_killed_in_mid_run_changes_nothing(expected, tmp_path):
    distributed = pytest.importorskip("distributed")
    store, deadline = Store(tmp_path, patience=2.0), time.monotonic() + 120
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        made = finished(WORK, store, lambda work: dask_runs(work, store, address))
        first, state = next(made)
        assert state == "done"
        before = leases(store)
        while not (begun := leases(store).items() - before.items()):
            time.sleep(0.01)
            assert time.monotonic() < deadline
        place, pid = begun.pop()
        assert pid in {w.process.pid for w in cluster.workers.values()}
        os.kill(pid, signal.SIGKILL)
        assert not (place / "summary.json").exists()
        rest = dict(made)
    assert {first, *rest} == set(WORK)
    assert results(store) == expected


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_goes_away_is_said_in_one_line(tmp_path):
    distributed = pytest.importorskip("distributed")
    store = Store(tmp_path, patience=2.0)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        made = dask_runs(WORK, store, cluster.scheduler_address)
        next(made)
        cluster.close()
        with pytest.raises(RuntimeError, match=r"lost the scheduler tcp://.*to continue"):
            list(made)


def test_the_slurm_script_is_one_command_for_every_task(tmp_path):
    text = slurm_script(7, ["pacbayes", "reproduce", "table1", "--out", "a b"], tmp_path)
    assert "#SBATCH --array=1-7\n" in text
    assert text.rstrip().endswith("pacbayes reproduce table1 --out 'a b' --workers 1")
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_runs_that_others_are_at_are_passed_over_and_come_last(tmp_path):
    store, asked = Store(tmp_path, patience=1.5), []

    def executor(work):
        asked.append(list(work))
        return ((c, run(c, store)) for c in work)

    with store.lease(WORK[0]):
        pass  # makes its folder
    (store.place(WORK[0]) / "lease").write_text("somebody else")
    order = [c for c, state in finished(WORK[:3], store, executor) if state == "done"]
    assert order == [WORK[1], WORK[2], WORK[0]]
    assert asked == [WORK[1:3], [WORK[0]]]  # nobody is asked for what is somebody's


def test_runs_that_others_have_done_need_no_executor(tmp_path, summarised):
    store = Store(tmp_path)
    for c in WORK:
        with store.lease(c):
            store.finish(c, summarised())
    made = finished(WORK, store, lambda work: pytest.fail("asked"))
    assert list(made) == [(c, "done") for c in WORK]


def test_whoever_waits_looks_at_few_runs_and_less_and_less_often(tmp_path, summarised, monkeypatch):
    class Patient(Clock):
        def sleep(self, seconds):
            waits.append((seconds, len(looks)))
            looks.clear()
            if len(waits) == 6:  # the others have finished
                for c in work:
                    store.finish(c, summarised())

    store = Store(tmp_path, patience=60.0, clock=Patient())
    work = [replace(WORK[0], repeat=i + 1) for i in range(50)]
    for c in work:
        store.place(c).mkdir(parents=True)
        (store.place(c) / "lease").write_text("elsewhere 1 pid:[1] token")
    waits, looks, state = [], [], Store.state
    monkeypatch.setattr(Store, "state", lambda *given: looks.append(1) or state(*given))
    states = dict(finished(work, store, lambda work: pytest.fail("asked")))
    assert states == dict.fromkeys(work, "done")
    assert waits == [(10, 50), (20, 20), (40, 20), (60, 20), (60, 20), (60, 20)]


def test_few_runs_are_made_in_their_order_and_many_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr("pacbayes.paper.sweep._CHANCE", random.Random(0))
    firsts = set()
    for count in (500, 501, 501, 501):
        work, asked = [replace(WORK[0], repeat=i + 1) for i in range(count)], []
        executor = lambda free, asked=asked: asked.extend(free) or ((c, "done") for c in free)
        assert dict(finished(work, Store(tmp_path), executor)) == dict.fromkeys(work, "done")
        first = work.index(asked[0])
        assert asked == work[first:] + work[:first]
        assert count > 500 or first == 0
        firsts.add(first)
    assert len(firsts) == 4


def test_threads_of_one_process_take_turns(expected, tmp_path):
    """Torch's generator is the process's: two runs at once would share it."""
    store = Store(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda c: run(c, store), WORK)) == ["done"] * len(WORK)
    assert results(store) == expected
