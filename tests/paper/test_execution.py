"""A run in its folder: made once, resumed with the same bits, honest when it fails."""

from dataclasses import replace

import pytest
import torch

from pacbayes import folders, small_kl
from pacbayes.bounds import catoni_c
from pacbayes.data import load
from pacbayes.files import load_json, load_tensors, save_tensors
from pacbayes.folders import run as running
from pacbayes.paper import execution, printed
from pacbayes.paper.columns import COLUMNS, chosen
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store
from pacbayes.verify import verify


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_runs(column, tmp_path):
    store, configuration = Store(tmp_path), replace(chosen(column, "digits", 2), repeat=1)
    configuration = replace(configuration, samples=min(configuration.samples, 5))
    assert run(configuration, store) == "done"
    summary = store.summary(configuration)
    assert 0 <= summary.train_linear <= 0.6
    assert 0 <= summary.test_zero_one <= 0.7
    assert (summary.bound is None) == (column == "mlp")
    ours = column not in ("mlp", "pbg", "pbg-full")
    assert (summary.certificate is not None) == ours
    assert (summary.vote_zero_one is not None) == ours
    assert summary.epoch in (1, 2)
    assert summary.versions["processor"]


@pytest.mark.parametrize("column", ["fix-lambda-relu", "pbg", "reinforce-sign"])
def test_a_killed_run_resumes_with_the_same_bits(column, tmp_path, monkeypatch):
    configuration = replace(chosen(column, "digits", 6), samples=2, repeat=1)
    whole, parts = Store(tmp_path / "whole"), Store(tmp_path / "parts")
    run(configuration, whole)
    room = execution if column == "pbg" else running
    original, saved = room.save_tensors, []

    def dying(path, *rest):
        original(path, *rest)
        saved.append(path)
        if len(saved) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(room, "save_tensors", dying)
    with pytest.raises(KeyboardInterrupt):
        run(configuration, parts)
    assert parts.state(configuration) == "waiting"
    monkeypatch.setattr(room, "save_tensors", original)
    run(configuration, parts)
    first, second = (s.summary(configuration) for s in (whole, parts))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_a_run_that_is_made_is_not_made_again(tmp_path, monkeypatch):
    configuration, store = replace(chosen("mlp", "digits", 1), repeat=1), Store(tmp_path)
    run(configuration, store)
    monkeypatch.setattr(execution, "_baseline_summary", lambda *a: pytest.fail("made again"))
    assert run(configuration, store) == "done"


def test_a_run_that_fails_says_why_and_may_be_tried_again(tmp_path, monkeypatch):
    configuration, store = replace(chosen("mlp", "digits", 1), repeat=1), Store(tmp_path)
    original = execution.load

    def broken(name):
        raise ValueError("the disk is full of fish")

    monkeypatch.setattr(execution, "load", broken)
    assert run(configuration, store) == "failed"
    assert store.failure(configuration) == "ValueError: the disk is full of fish"
    monkeypatch.setattr(execution, "load", original)
    assert run(configuration, store) == "done"
    assert store.state(configuration) == "done"


@pytest.mark.parametrize("repeat", [0, 1])
def test_a_repeat_that_learns_nothing_is_reset_and_a_grid_point_is_not(repeat, tmp_path):
    configuration = replace(chosen("mlp", "digits", 10), learning_rate=1e-9, repeat=repeat)
    store = Store(tmp_path)
    run(configuration, store)
    summary = store.summary(configuration)
    assert not summary.learned
    assert summary.attempts == (1 if repeat == 0 else 5)


@pytest.mark.parametrize("repeat", [0, 1])
def test_what_diverges_is_not_made_again_but_a_repeat_is_reset_first(repeat, tmp_path, monkeypatch):
    configuration = replace(chosen("mlp", "digits", 1), learning_rate=1e30, repeat=repeat)
    store, seeds, original = Store(tmp_path), [], execution._trained_baseline

    def watched(current, *rest):
        seeds.append(current.seed)
        return original(current, *rest)

    monkeypatch.setattr(execution, "_trained_baseline", watched)
    assert run(configuration, store) == "failed"
    assert store.failure(configuration).startswith("FloatingPointError: ")
    assert store.diverged(configuration)
    tried = [0] if repeat == 0 else [1, 1001, 2001, 3001, 4001]
    assert seeds == tried
    assert run(configuration, store) == "failed"
    assert seeds == tried


def test_a_repeat_that_diverges_at_first_goes_on_from_another_start(tmp_path, monkeypatch):
    configuration, store = replace(chosen("mlp", "digits", 1), repeat=1), Store(tmp_path)
    original = execution._trained_baseline

    def late(current, *rest):
        if current.attempt == 0:
            raise FloatingPointError("training diverged")
        return original(current, *rest)

    monkeypatch.setattr(execution, "_trained_baseline", late)
    assert run(configuration, store) == "done"
    assert store.summary(configuration).attempts == 2


def test_the_seconds_of_a_run_are_those_of_all_its_starts(tmp_path, monkeypatch):
    configuration = replace(chosen("mlp", "digits", 10), learning_rate=1e-9, repeat=1)
    store, original = Store(tmp_path), execution._trained_baseline

    def timed(current, *rest):
        loop = original(current, *rest)
        loop.seconds = 2.0**current.attempt
        return loop

    monkeypatch.setattr(execution, "_trained_baseline", timed)
    run(configuration, store)
    assert store.summary(configuration).seconds == 31


def test_a_mistake_of_ours_ends_one_run_and_not_the_sweep(tmp_path, monkeypatch):
    def mistaken(*given):
        raise KeyError("history")

    configuration, store = chosen("mlp", "digits", 1), Store(tmp_path)
    monkeypatch.setattr(execution, "_baseline_summary", mistaken)
    assert run(configuration, store) == "failed"
    assert store.failure(configuration) == "KeyError: 'history'"


def test_a_summary_is_of_the_best_epoch_and_pays_for_every_prior(tmp_path):
    configuration = replace(chosen("fix-lambda-sign", "digits", 30), samples=2, repeat=1)
    store = Store(tmp_path)
    run(configuration, store)
    summary = store.summary(configuration)
    certificate = load_json(store.place(configuration) / "certificate.json")
    assert summary.epoch < 30  # else the last would do
    assert certificate["kl"] == pytest.approx(summary.kl, rel=1e-8)
    assert summary.certificate == certificate["bound"]
    assert certificate["ledger"]["pac-bayes"] <= 0.05 / 2 / 5
    fifth = small_kl(summary.train_linear, summary.kl, certificate["n"], 0.05 / 5)
    assert summary.small_kl == fifth


def test_a_networks_folder_is_an_ordinary_run_folder(tmp_path):
    configuration = replace(chosen("fix-lambda-relu", "digits", 2), samples=2, repeat=1)
    store = Store(tmp_path)
    run(configuration, store)
    folder = store.place(configuration)
    assert all(finding.holds for finding in verify(folder / "certificate.json"))
    opened = folders.open_run(folder)
    assert opened.settings.seed == configuration.seed
    asked = {"delta": 0.1, "bound": "disintegrated", "samples": None}
    folders.certify_run(opened, opened.load_network(), opened.load_data(), **asked)
    prediction = folders.predict(opened, "digits", "drawn", samples=1, seed=0, label=None)
    assert prediction.error is not None


def hopeless(repeat):
    return replace(
        chosen("fix-lambda-sign", "digits", 10), learning_rate=1e-9, samples=2, repeat=repeat
    )


@pytest.mark.parametrize("repeat", [0, 1])
def test_a_network_that_learns_nothing_is_reset_with_another_prior(repeat, tmp_path):
    configuration, store = hopeless(repeat), Store(tmp_path)
    run(configuration, store)
    summary, folder = store.summary(configuration), store.place(configuration)
    tries = 1 if repeat == 0 else 5
    assert not summary.learned
    assert summary.attempts == tries
    assert folders.open_run(folder).settings.seed == repeat + 1000 * (tries - 1)
    resets = load_json(folder / "resets.json") if repeat else []
    assert [reset["seed"] for reset in resets] == [1, 1001, 2001, 3001][: tries - 1]
    assert summary.seconds > sum(reset["seconds"] for reset in resets)


def test_a_reset_that_was_interrupted_goes_on_with_the_next_prior(tmp_path, monkeypatch):
    configuration, whole, parts = hopeless(1), Store(tmp_path / "a"), Store(tmp_path / "b")
    run(configuration, whole)
    original = execution._discard

    def killed(place):
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "_discard", killed)
    with pytest.raises(KeyboardInterrupt):
        run(configuration, parts)
    monkeypatch.setattr(execution, "_discard", original)
    assert run(configuration, parts) == "done"
    first, second = (s.summary(configuration) for s in (whole, parts))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_a_network_that_diverges_is_reset(tmp_path, monkeypatch):
    configuration = replace(chosen("fix-lambda-relu", "digits", 1), samples=2, repeat=1)
    store, original = Store(tmp_path), execution.train_run

    def late(made, data):
        if made.settings.seed == 1:
            raise FloatingPointError("training diverged")
        yield from original(made, data)

    monkeypatch.setattr(execution, "train_run", late)
    assert run(configuration, store) == "done"
    assert store.summary(configuration).attempts == 2
    assert load_json(store.place(configuration) / "resets.json")[0]["reason"] == "diverged"


def test_what_somebody_else_writes_to_is_busy_and_keeps_its_files(tmp_path, monkeypatch):
    configuration = replace(chosen("fix-lambda-relu", "digits", 2), samples=2, repeat=1)
    store = Store(tmp_path)
    run(configuration, store)
    (store.place(configuration) / "summary.json").unlink()
    before = sorted(store.place(configuration).iterdir())
    prepare = execution.prepare

    def late(place, *rest):  # a writer that came since the store looked
        (place / "writer").write_text("elsewhere 1 pid:[1] token")
        return prepare(place, *rest)

    monkeypatch.setattr(execution, "prepare", late)
    assert run(configuration, store) == "busy"
    assert store.failure(configuration) is None
    (store.place(configuration) / "writer").unlink()
    assert sorted(store.place(configuration).iterdir()) == before


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "run.json", "prior.safetensors"])
def test_a_damaged_run_folder_means_beginning_again(name, tmp_path, monkeypatch):
    configuration = replace(chosen("fix-lambda-relu", "digits", 2), samples=2, repeat=1)
    whole, store = Store(tmp_path / "a"), Store(tmp_path / "b")
    for each in (whole, store):
        run(configuration, each)
    (store.place(configuration) / "summary.json").unlink()
    (store.place(configuration) / name).write_bytes(b"{")
    assert run(configuration, store) == "done"
    first, second = (s.summary(configuration) for s in (whole, store))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_a_damaged_checkpoint_means_beginning_again(tmp_path):
    configuration, store = replace(chosen("mlp", "digits", 2), repeat=1), Store(tmp_path / "a")
    whole = Store(tmp_path / "b")
    run(configuration, whole)
    store.place(configuration).mkdir(parents=True)
    (store.place(configuration) / "checkpoint-0.safetensors").write_bytes(b"")
    assert run(configuration, store) == "done"
    first, second = (s.summary(configuration) for s in (whole, store))
    assert replace(first, seconds=0) == replace(second, seconds=0)


@pytest.mark.parametrize("record", [{}, {"epoch": 1, "seconds": 1.0, "history": [{"old": 1}]}])
def test_the_checkpoint_of_another_version_means_beginning_again(record, tmp_path):
    configuration, store = replace(chosen("mlp", "digits", 2), repeat=1), Store(tmp_path / "a")
    whole = Store(tmp_path / "b")
    run(configuration, whole)
    path = store.place(configuration) / "checkpoint-0.safetensors"
    path.parent.mkdir(parents=True)
    tensors, _ = load_tensors(whole.place(configuration) / path.name)
    save_tensors(path, tensors if record else {}, record)
    assert run(configuration, store) == "done"
    first, second = (s.summary(configuration) for s in (whole, store))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_pbg_has_the_split_of_its_published_code_and_pbg_full_that_of_the_others():
    """A quarter of all images to test on, others in every repeat; none twice."""
    one, two = (replace(chosen("pbg", "digits", 1), repeat=r) for r in (1, 2))
    (x, y), (x_test, y_test) = execution.examples(one)
    assert (len(x), len(y), len(x_test), len(y_test)) == (1347, 1347, 450, 450)
    data = load("digits")
    everything = torch.cat([data.tensors("train")[0], data.tensors("test")[0]])
    rows = torch.cat([x, x_test])
    assert torch.equal(rows.sum(1).sort().values, everything.sum(1).sort().values)
    assert torch.equal(execution.examples(one)[0][0], x)
    assert not torch.equal(execution.examples(two)[0][0], x)
    full = execution.examples(chosen("pbg-full", "digits", 1))
    assert torch.equal(full[0][0], data.tensors("train")[0])


def test_the_papers_pbg_bound_is_that_of_its_loss_and_kl_at_three_quarters_of_all_images():
    pbg = printed.COLUMNS["pbg"]
    at = {n: 2 * catoni_c(pbg.train_linear, pbg.kl, n, 0.05) for n in (52_500, 60_000)}
    assert round(100 * at[52_500], 1) == 40.8 == 100 * pbg.bound
    assert round(100 * at[60_000], 1) == 39.0


def test_a_point_of_the_grid_is_compared_and_no_more(tmp_path):
    store, configuration = (
        Store(tmp_path),
        replace(chosen("fix-lambda-sign", "digits", 1), samples=2),
    )
    assert run(configuration, store) == "done"
    summary = store.summary(configuration)
    assert summary.bound <= 1
    assert summary.test_zero_one < 1
    assert (summary.vote_zero_one, summary.certificate) == (None, None)


def test_optim_lambda_starts_where_the_papers_losses_come_out(tmp_path):
    data = load("digits")
    for kind, start in (("fix-lambda", None), ("optim-lambda", 1e5 * len(data.x_train) / 60_000)):
        settings = execution._settings(chosen(f"{kind}-relu", "digits", 1), data)
        assert settings.lam == (start and pytest.approx(start))
