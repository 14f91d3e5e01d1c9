"""Files made to exhaust memory, or to be executed by whoever opens the output."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest

from pacbayes.bounds import disintegrated
from pacbayes.cli.streams import harmless
from pacbayes.data import DataError, arrays, load
from pacbayes.data.arrays import unpacked
from pacbayes.files import file_sha256, load_tensors, save_tensors


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_19_arrays_that_do_not_fit_are_refused_before_memory_is_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros((1000, 1000)), y=np.arange(1000) % 2)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(arrays, "_available_memory", lambda: 15e6)
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("was loaded"))
    with pytest.raises(DataError, match="more than half of the available memory"):
        load(str(path))


def test_19_a_header_that_claims_more_than_there_is_is_refused(tmp_path):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
    )
    with pytest.raises(DataError, match="its arrays take"):
        load(str(npz(tmp_path / "a.npz", x=buffer.getvalue())))


def test_19_a_gzip_file_is_unpacked_up_to_its_known_size_only():
    packed = gzip.compress(bytes(10**7))
    assert unpacked(packed, 10**7) == bytes(10**7)
    with pytest.raises(DataError, match="more than the 1000 bytes"):
        unpacked(packed, 1000)
    with pytest.raises(EOFError):
        unpacked(packed[:-20], 10**7)


def test_20_class_names_are_not_executed_by_terminals_or_spreadsheets(run_cli, tmp_path):
    names = ["=HYPERLINK(0)", "red\x1b[2J"]
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    np.savez(tmp_path / "data.npz", x=x, y=np.array(names)[index])
    train = ("train", "--dataset", tmp_path / "data.npz", "--widths", "none", "--epochs", "1")
    assert run_cli(*train, "--out", tmp_path / "run")[0] == 0
    code, out, _ = run_cli("predict", tmp_path / "run", tmp_path / "data.npz")
    assert code == 0
    assert "\x1b" not in out
    assert not any(line.startswith("=") for line in out.splitlines())
    _, out, _ = run_cli("predict", tmp_path / "run", tmp_path / "data.npz", "--json")
    assert set(json.loads(out)["labels"]) <= set(names)


@pytest.mark.parametrize("label", ["0-4", "-1", "+1.5", "1e3", "cat", "-inf", "a=b"])
def test_20_harmless_labels_stay_as_they_are(label):
    assert harmless(label) == label


def test_11_tandem_does_not_cover_a_vote_of_some_draws(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--widths", "none", "--epochs", "1", "--out", run)
    for bound, remarked in (("tandem", True), ("first-order", False)):
        run_cli("certify", run, "--bound", bound, "-T", "4", "--replace")
        _, _, err = run_cli("predict", run, csv, "--method", "vote", "-T", "1")
        assert ("covers the vote of all of Q, not of some draws" in err) == remarked


def test_17_a_split_of_another_type_is_not_the_runs(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    asked = ("--widths", "none", "--epochs", "1", "--prior-epochs", "1", "--prior-fraction", "0.5")
    run_cli("train", "--dataset", csv, *asked, "--out", run)
    run_cli("certify", run, "-T", "2")
    index, _ = load_tensors(run / "split.safetensors")
    before = file_sha256(run / "split.safetensors")
    save_tensors(run / "split.safetensors", {"bound": index["bound"].double()})
    after = file_sha256(run / "split.safetensors")
    for name in ("run.json", "certificate.json"):  # forged to agree with the file
        path = run / name
        path.write_text(path.read_text().replace(before, after))
    code, out, err = run_cli("verify", run)
    assert (code, "Traceback" in err) == (1, False)
    assert "is not what seed 0 draws" in out
    code, _, err = run_cli("certify", run, "-T", "2")
    assert (code, err.count("\n")) == (2, 1)


def test_15_a_fraction_of_a_network_is_charged_as_a_whole_one(run_cli, csv, tmp_path):
    run = tmp_path / "run"
    run_cli("train", "--dataset", csv, "--widths", "none", "--epochs", "1", "--out", run)
    run_cli("certify", run, "--bound", "disintegrated", "--networks", "20")
    assert run_cli("verify", run)[0] == 0
    path = run / "certificate-drawn.json"
    claim = json.loads(path.read_text())
    assert claim["parameters"]["network"] < 19  # else another check would fail
    claim["parameters"]["networks"] = 19.999
    spent = claim["ledger"]["pac-bayes"]
    claim["bound"] = disintegrated(claim["risk"], claim["kl"], claim["n"], spent, networks=19)
    path.write_text(json.dumps(claim))
    assert run_cli("verify", run)[0] == 1


@pytest.mark.parametrize("change", [{"bound": []}, {"delta": "x"}, {"ledger": {}}])
def test_17_damaged_certificates_are_neither_exported_nor_reported(run_cli, csv, tmp_path, change):
    run, out = tmp_path / "run", tmp_path / "out"
    options = ["--prior-fraction", "0.5", "--prior-epochs", "1", "--epochs", "1"]
    run_cli("train", "--dataset", csv, *options, "--out", run)
    assert run_cli("certify", run, "--bound", "held-out")[0] == 0
    path = run / "certificate-fixed.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    for command in (
        ["export", run, "--format", "torch", "--method", "fixed", "--out", f"{out}.pt2"],
        ["report", run, "--out", f"{out}.html"],
    ):
        code, _, err = run_cli(*command)
        assert (code, err.count("\n")) == (2, 1)
        assert str(path) in err
