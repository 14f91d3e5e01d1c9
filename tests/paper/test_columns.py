"""Ten columns, their grids, and keys that name runs."""

import hashlib
import json
from dataclasses import replace

import pytest

from pacbayes.paper import printed
from pacbayes.paper.columns import ADDED, COLUMNS, PAPER, chosen, grid
from pacbayes.settings import OF_LEARNING, Settings


def test_the_papers_search_has_135_runs():
    counts = {column: len(list(grid(column, "binary-mnist", None))) for column in COLUMNS}
    assert sum(counts.values()) == 135
    assert counts["mlp"] == 3
    assert counts["pbg"] == 36
    assert {counts[c] for c in PAPER[2:]} == {12}
    assert {counts[c] for c in ADDED} == {0}


def test_every_run_has_a_key_of_its_own_that_stays():
    keys = [c.key for column in PAPER for c in grid(column, "binary-mnist", None)]
    assert len(set(keys)) == 135
    first = chosen("fix-lambda-relu", "binary-mnist", None)
    assert first.key == "fix-lambda-relu-" + first.key[-16:]
    assert first.key != replace(first, attempt=1).key
    assert chosen("pbg", "binary-mnist", None).key == "pbg-33b28e8aa545eeed"  # on every machine


@pytest.mark.parametrize("column", COLUMNS)
def test_a_configuration_says_what_is_run(column):
    for c in (chosen(column, "binary-mnist", None), *grid(column, "binary-mnist", None)):
        s = c.settings()
        assert (c.learning_rate, c.samples, c.depth) == (s.learning_rate, s.samples, len(s.widths))
    if column.startswith("fast"):
        assert s == Settings.of("fast", column.removeprefix("fast-"), widths=(100, 100, 100))


@pytest.mark.parametrize("column", COLUMNS)
def test_settings_are_the_columns(column):
    configuration = chosen(column, "binary-mnist", None)
    s = configuration.settings()
    if column.startswith("fast"):
        assert (s.protocol, s.learned_scale) == ("fast", True)
        return
    p = printed.COLUMNS[column.removesuffix("-full")]
    assert s.protocol == "paper"
    assert s.learning_rate == p.learning_rate
    assert s.samples == p.samples
    assert s.widths == (100,) * p.depth
    assert s.epochs == (100 if column == "mlp" else 200)
    assert s.batch_size == 256
    assert s.evaluate_every == (1 if column == "mlp" else 5)
    assert (s.estimator == "reinforce") == column.startswith("reinforce")
    assert s.objective == ("optim-lambda" if column.startswith("optim") else "fix-lambda")
    if "-" in column and column != "pbg-full":
        assert column.endswith(s.activation)


def test_repeats_differ_in_their_seed_and_resets_too():
    seeds = [replace(chosen("mlp", "digits", 3), repeat=r).settings().seed for r in range(3)]
    assert seeds == [0, 1, 2]
    assert replace(chosen("mlp", "digits", 3), repeat=2, attempt=1).settings().seed == 1002


def test_epochs_that_a_column_has_anyway_make_no_other_run():
    usual = {column: chosen(column, "digits", None).settings().epochs for column in COLUMNS}
    for column, epochs in usual.items():
        assert chosen(column, "digits", epochs) == chosen(column, "digits", None)
        assert chosen(column, "digits", epochs + 1) != chosen(column, "digits", None)
    assert list(grid("pbg", "digits", 200)) == list(grid("pbg", "digits", None))


def test_what_a_column_does_does_not_change_under_its_name():
    """If this fails, raise the column's edition as well: runs of both kinds must not meet."""
    every = [chosen(column, "binary-mnist", None).settings() for column in COLUMNS]
    later = {"basis": "none", "prior_smooth": 0.0}  # settings that came with 1.1, and do nothing
    assert all(settings.model_dump(include=set(later)) == later for settings in every)
    idle = {*OF_LEARNING, *later}  # no prior learns
    does = [settings.model_dump(exclude=idle) for settings in every]
    text = json.dumps([printed.OPTIM_START, does], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "949b2154202c14f2"
