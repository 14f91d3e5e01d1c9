"""The grid first, then the winners' repeats; and how far a sweep is."""

import pytest

from pacbayes.paper.columns import grid
from pacbayes.paper.store import Store
from pacbayes.paper.sweep import Sweep, status


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
