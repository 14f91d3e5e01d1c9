"""How far a sweep is."""

import pytest

from pacbayes.experiments.status import status
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep


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
