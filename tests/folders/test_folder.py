"""Runs on disk: resumable after any kill, faithful to their data and prior."""

import json

import numpy as np
import pytest
import torch

import pacbayes
from pacbayes import Settings, folders, kl
from pacbayes.data import DataError
from pacbayes.engine.network import NativeEngine
from pacbayes.files import DamagedFileError, file_sha256, load_tensors, save_tensors
from pacbayes.folders import preparation
from pacbayes.folders.preparation import prepare
from pacbayes.training import blueprint, loop

SETTINGS = Settings.of("fast", "relu", widths=(5,), epochs=6, evaluate_every=2, batch_size=32)


def trained(folder, source, settings=SETTINGS, stop_after=None):
    data = source.load()
    run = prepare(folder, settings, source, data)
    for i, _ in enumerate(folders.train_run(run, data)):
        if i + 1 == stop_after:
            return run
    return run


@pytest.fixture
def batch_by_batch(monkeypatch):
    """Let the native engine make one step a call, so that a run can stop within an epoch."""
    monkeypatch.setattr(NativeEngine, "at_once", lambda engine, batch: 1)


@pytest.mark.usefixtures("batch_by_batch")
@pytest.mark.parametrize("stop_after", [1, 7, 9, 17, 23])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, source, stop_after):
    """24 mini-batches in all; stopped within an epoch, between epochs, before the last."""
    whole = trained(tmp_path / "whole", source)
    killed = trained(tmp_path / "killed", source, stop_after=stop_after)
    assert not killed.trained
    with pytest.raises(ValueError, match="is not fully trained"):
        killed.load_network()
    trained(tmp_path / "killed", source)
    for name in ("prior.safetensors", "posterior.safetensors"):
        assert (killed.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    histories = [json.loads((r.folder / "history.json").read_text()) for r in (whole, killed)]
    for history in histories:
        for e in history:
            e.pop("seconds")
    assert histories[0] == histories[1]


def test_a_finished_run_is_left_as_it_is(tmp_path, source):
    run = trained(tmp_path / "run", source)
    before = (run.folder / "posterior.safetensors").read_bytes()
    again = trained(tmp_path / "run", source)
    assert (again.folder / "posterior.safetensors").read_bytes() == before


def test_another_runs_folder_is_refused_and_the_difference_named(tmp_path, source):
    trained(tmp_path / "run", source)
    other = SETTINGS.model_copy(update={"learning_rate": 0.5})
    with pytest.raises(ValueError, match=r"learning_rate is 0\.03, requested 0\.5"):
        trained(tmp_path / "run", source, other)


def test_the_loaded_network_is_the_best_epochs(tmp_path, source):
    restless = Settings(
        protocol="paper", widths=(5,), epochs=8, evaluate_every=1, batch_size=32, learning_rate=1.0
    )
    run = trained(tmp_path / "run", source, restless)
    history = json.loads((run.folder / "history.json").read_text())
    best = min(history, key=lambda e: e["bound"])
    assert best is not history[-1]
    assert kl(run.load_network()).item() == best["kl"]


def test_the_prior_is_the_saved_one_whatever_would_be_built_today(tmp_path, source, monkeypatch):
    run = trained(tmp_path / "run", source)
    saved, _ = load_tensors(run.folder / "prior.safetensors")
    build = blueprint.build_network
    other = run.settings.model_copy(update={"seed": 77})
    monkeypatch.setattr(blueprint, "build_network", lambda _, *shape: build(other, *shape))
    state = run.load_network().state_dict()
    assert len(saved) == 8
    assert all(torch.equal(state[name], tensor) for name, tensor in saved.items())


def test_a_posterior_cannot_bring_a_prior_of_its_own(tmp_path, source):
    run = trained(tmp_path / "run", source)
    path = run.folder / "posterior.safetensors"
    tensors, record = load_tensors(path)
    forged = {
        name.replace("mean", "prior_mean"): t.clone()
        for name, t in tensors.items()
        if "mean" in name
    }
    save_tensors(path, tensors | forged, record)
    with pytest.raises(DamagedFileError, match="is not a posterior"):
        run.load_network()


@pytest.mark.parametrize("name", ["posterior.safetensors", "checkpoint.safetensors"])
def test_files_of_another_run_are_refused(tmp_path, source, name):
    other = trained(tmp_path / "other", source, SETTINGS.model_copy(update={"seed": 9}))
    run = trained(tmp_path / "run", source)
    (run.folder / name).write_bytes((other.folder / name).read_bytes())
    with pytest.raises(DamagedFileError, match=f"{name} belongs to another run"):
        run.load_network() if "posterior" in name else trained(tmp_path / "run", source)


def test_a_missing_prior_is_noticed_before_training_goes_on(tmp_path, source):
    run = trained(tmp_path / "run", source, stop_after=10)
    (run.folder / "prior.safetensors").unlink()
    with pytest.raises(DamagedFileError, match=r"prior, is missing"):
        trained(tmp_path / "run", source)


def test_history_is_whole_even_if_the_last_write_of_it_was_lost(tmp_path, source):
    run = trained(tmp_path / "run", source)
    (run.folder / "posterior.safetensors").unlink()
    (run.folder / "history.json").write_text("[]")
    trained(tmp_path / "run", source)
    assert [e["epoch"] for e in json.loads((run.folder / "history.json").read_text())] == [2, 4, 6]


@pytest.mark.usefixtures("batch_by_batch")
def test_long_epochs_are_checkpointed_by_time(tmp_path, source, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    settings = SETTINGS.model_copy(update={"evaluate_every": 100})
    run = trained(tmp_path / "run", source, settings, stop_after=5)
    assert load_tensors(run.folder / "checkpoint.safetensors")[1]["epoch"] == 1


def test_the_certificate_neither_reads_nor_moves_torchs_generator(tmp_path, source):
    run = trained(tmp_path / "run", source)
    network, data = run.load_network(), run.load_data()
    before = torch.random.get_rng_state()
    c = folders.certify_run(run, network, data, delta=0.05, bound="small-kl", samples=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert c.provenance["posterior_sha256"] == file_sha256(run.folder / "posterior.safetensors")


def test_changed_data_are_refused(tmp_path, source):
    run = trained(tmp_path / "run", source)
    with np.load(source.name) as file:
        x, y = file["x"].copy(), file["y"]
    x[5, 2] += 1e-3
    np.savez(source.name, x=x, y=y)
    with pytest.raises(DataError, match="not the data"):
        run.load_data()
    with pytest.raises(ValueError, match="train_sha256"):
        trained(tmp_path / "run", source)


def test_a_changed_prior_is_refused(tmp_path, source):
    run = trained(tmp_path / "run", source)
    other = SETTINGS.model_copy(update={"seed": 5})
    another = trained(tmp_path / "other", source, other)
    stolen = (another.folder / "prior.safetensors").read_bytes()
    (run.folder / "prior.safetensors").write_bytes(stolen)
    with pytest.raises(DamagedFileError, match="not the run's prior"):
        run.load_network()


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "run.json"])
def test_damaged_files_are_named(tmp_path, source, name):
    run = trained(tmp_path / "run", source, stop_after=20)
    path = run.folder / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DamagedFileError, match=name):
        trained(tmp_path / "run", source)


def test_certificate_repeats_and_records_where_it_comes_from(tmp_path, source):
    run = trained(tmp_path / "run", source)
    network, data = run.load_network(), run.load_data()
    arguments = {"delta": 0.05, "bound": "small-kl", "samples": 10}
    certificate = folders.certify_run(run, network, data, **arguments)
    saved = json.loads((run.folder / "certificate.json").read_text())
    assert saved["bound"] == certificate.bound
    assert folders.certify_run(run, network, data, **arguments) == certificate
    p = certificate.provenance
    assert p["data_sha256"] == data.train_sha256
    assert p["prior_sha256"] == run.record.prior_sha256
    assert p["versions"]["torch"] == torch.__version__
    assert certificate.n == 120
    with torch.no_grad():
        network.layer.weight.mean.add_(1e-6)
    assert folders.certify_run(run, network, data, **arguments).risk != certificate.risk


def test_a_full_disk_leaves_no_folder_behind(tmp_path, source, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(preparation, "save_json", full)
    with pytest.raises(OSError, match="No space left"):
        prepare(tmp_path / "run", SETTINGS, source, source.load())
    assert not (tmp_path / "run").exists()


def test_changed_versions_are_noticed(tmp_path, source, monkeypatch):
    run = trained(tmp_path / "run", source, stop_after=10)
    assert run.changed_versions == []
    before = pacbayes.__version__
    monkeypatch.setattr(pacbayes, "__version__", "9")
    assert folders.open_run(run.folder).changed_versions == [f"pacbayes {before}, now 9"]


def test_not_a_run(tmp_path):
    with pytest.raises(ValueError, match=r"has no run\.json"):
        folders.open_run(tmp_path)
