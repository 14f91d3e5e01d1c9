"""Curves for TensorBoard, read back with TensorBoard's own reader."""

import json
import sys
import warnings

import pytest

NAMES = ["KL", "bound", "lambda", "learning rate", "risk"]
SMALL = (
    "--prior-fraction",
    "0",
    "--widths",
    "4",
    "--epochs",
    "4",
    "--batch-size",
    "50",
    "--evaluate-every",
    "1",
)


def read(folder):
    with warnings.catch_warnings():  # of the reader's own imports
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def points(events, name):
    return [(e.step, e.value) for e in events.Scalars(name)]


def test_a_run_leaves_its_evaluations_and_settings(run_cli, csv, tmp_path):
    folder = tmp_path / "run"
    train = ("train", "--dataset", csv, "--out", folder, *SMALL, "--tensorboard", tmp_path / "tb")
    assert run_cli(*train)[0] == 0
    events = read(tmp_path / "tb" / "run")
    assert sorted(events.Tags()["scalars"]) == NAMES
    history = json.loads((folder / "history.json").read_text())
    for name, field in zip(NAMES, ["kl", "bound", "lam", "learning_rate", "risk"], strict=True):
        expected = [(e["epoch"], pytest.approx(e[field], rel=1e-6)) for e in history]
        assert points(events, name) == expected
    (text,) = events.Tensors("settings/text_summary")
    assert b'"widths": [' in text.tensor_proto.string_val[0]


def test_a_resumed_run_goes_on_without_gap_or_double(run_cli, csv, tmp_path, monkeypatch):
    from pacbayes import folders
    from pacbayes.folders import run as running

    train = ("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL)
    train += ("--tensorboard", tmp_path / "tb")
    original = folders.train_run

    def interrupted(run, data, **given):
        for step in original(run, data, **given):
            if step.evaluation and step.epoch == 3:  # in the checkpoint, not in the curves
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr(running, "train_run", interrupted)
    assert run_cli(*train)[0] == 130
    (tmp_path / "run" / "history.json").write_text("[]")  # the checkpoint is what counts
    assert [step for step, _ in points(read(tmp_path / "tb" / "run"), "bound")] == [1, 2]
    monkeypatch.setattr(running, "train_run", original)
    assert run_cli(*train)[0] == 0
    assert run_cli(*train)[0] == 0  # finished: the same curves again
    assert [step for step, _ in points(read(tmp_path / "tb" / "run"), "bound")] == [1, 2, 3, 4]
    assert len(list((tmp_path / "tb" / "run").iterdir())) == 1


def test_another_runs_curves_are_left_alone(run_cli, csv, tmp_path):
    train = ("train", "--dataset", csv, *SMALL, "--tensorboard", tmp_path / "tb", "--out")
    assert run_cli(*train, tmp_path / "a" / "run")[0] == 0
    before = sorted((tmp_path / "tb").rglob("*"))
    code, _, err = run_cli(*train, tmp_path / "b" / "run", "--seed", "1")
    assert code == 2
    assert "contains the curves of another run" in err
    assert err.count("error") == 1
    assert sorted((tmp_path / "tb").rglob("*")) == before


def test_without_the_package_nothing_is_trained(run_cli, csv, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    code, out, err = run_cli(
        *("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL, "--tensorboard", "tb")
    )
    assert (code, out) == (2, "")
    assert err == "error: --tensorboard needs tensorboard: pip install 'pacbayes[tensorboard]'\n"
    assert not (tmp_path / "run").exists()


def test_a_file_is_no_place_for_curves(run_cli, csv, tmp_path):
    code, _, err = run_cli(
        *("train", "--dataset", csv, "--out", tmp_path / "run", *SMALL, "--tensorboard", csv)
    )
    assert code == 2
    assert err == f"error: --tensorboard must be a folder, got the file {csv}\n"
    assert not (tmp_path / "run").exists()
