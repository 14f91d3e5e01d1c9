"""The grid first, then the winners' repeats."""

from pacbayes.experiments.columns import grid
from pacbayes.experiments.store import Store
from pacbayes.experiments.sweep import Sweep


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
