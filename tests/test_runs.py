"""Runs on disk: resumable after any kill, faithful to their data and prior."""

import json

import numpy as np
import pytest
import torch

from pacbayes import Settings, runs
from pacbayes.checkpoint import DamagedFileError
from pacbayes.data import DataError

SETTINGS = Settings.of("fast", "relu", widths=(5,), epochs=6, evaluate_every=2, batch_size=32)


def trained(folder, source, settings=SETTINGS, stop_after=None):
    data = source.load()
    run = runs.prepare(folder, settings, source, data)
    for i, _ in enumerate(runs.train_run(run, data)):
        if i + 1 == stop_after:
            return run
    return run


@pytest.mark.parametrize("stop_after", [1, 7, 9, 17, 23])
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path, source, stop_after):
    """24 mini-batches in all; stopped within an epoch, between epochs, before the last."""
    whole = trained(tmp_path / "whole", source)
    killed = trained(tmp_path / "killed", source, stop_after=stop_after)
    assert not killed.trained
    with pytest.raises(ValueError, match="not trained to the end"):
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
    with pytest.raises(ValueError, match=r"learning_rate 0\.03 there, 0\.5 asked for"):
        trained(tmp_path / "run", source, other)


def test_the_loaded_network_is_the_trained_one(tmp_path, source):
    run = trained(tmp_path / "run", source)
    network = run.load_network()
    assert all(torch.equal(v, network.state_dict()[k]) for k, v in network.state_dict().items())
    history = json.loads((run.folder / "history.json").read_text())
    from pacbayes import kl

    assert kl(network).item() in [e["kl"] for e in history]


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
    arguments = {"delta": 0.05, "bound": "small-kl", "samples": 10, "seed": None}
    certificate = runs.certify_run(run, network, data, **arguments)
    saved = json.loads((run.folder / "certificate.json").read_text())
    assert saved["bound"] == certificate.bound
    assert runs.certify_run(run, network, data, **arguments) == certificate
    p = certificate.provenance
    assert p["data_sha256"] == data.train_sha256
    assert p["prior_sha256"] == run.record.prior_sha256
    assert p["versions"]["torch"] == torch.__version__
    assert certificate.n == 120
    other = runs.certify_run(run, network, data, **{**arguments, "seed": 1})
    assert other.risk != certificate.risk


def test_a_full_disk_leaves_no_folder_behind(tmp_path, source, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "save_json", full)
    with pytest.raises(OSError, match="No space left"):
        runs.prepare(tmp_path / "run", SETTINGS, source, source.load())
    assert not (tmp_path / "run").exists()


def test_not_a_run(tmp_path):
    with pytest.raises(ValueError, match=r"no run\.json in it"):
        runs.open_run(tmp_path)
