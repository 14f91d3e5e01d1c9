"""Files of earlier formats are read, or refused with the reason; docs/formats.md promises it."""

import re
import zipfile
from pathlib import Path

import pytest

from pacbayes.certificates.certificate import FORMAT
from pacbayes.files import load_json, load_versioned, save_json

HERE = Path(__file__).parent
READ = ("certificate-4", "table-1", "classifier-1")
REFUSED = ("certificate-2", "certificate-3")


@pytest.fixture
def unpacked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def unpack(name):
        with zipfile.ZipFile(HERE / "formats" / f"{name}.zip") as archive:
            archive.extractall(tmp_path)
        return Path("run")

    return unpack


def test_there_is_a_file_of_every_format():
    names = {path.stem for path in (HERE / "formats").glob("*.zip")}
    assert names == {*READ, *REFUSED}
    assert {f"certificate-{i}" for i in range(2, FORMAT + 1)} <= names


@pytest.mark.parametrize("name", READ)
def test_folders_of_formats_that_are_read_still_verify_and_predict(unpacked, run_cli, name):
    run = unpacked(name)
    data = next(Path().glob("data.*"))
    if name == "table-1":  # its certificate has format 3
        assert run_cli("certify", run)[0] == 0
    for command in (("verify", run), ("verify", run, "--full"), ("predict", run, data)):
        code, out, err = run_cli(*command)
        assert code == 0, (command, out, err)
    assert run_cli("report", run)[0] == 0


@pytest.mark.parametrize("name", REFUSED)
def test_certificates_of_refused_formats_are_issued_again(unpacked, run_cli, name):
    run = unpacked(name)
    for command in (("verify", run), ("report", run)):
        code, _, err = run_cli(*command)
        assert (code, "format: Input should be 4" in err) == (2, True), command
    (run / "certificate-drawn.json").unlink()
    assert run_cli("certify", run, "-T", "2")[0] == 0
    assert run_cli("verify", run, "--full")[0] == 0


@pytest.mark.parametrize("name", READ)
def test_files_of_a_newer_pacbayes_are_refused_in_one_line(unpacked, run_cli, name):
    run = unpacked(name)
    save_json(run / "run.json", load_json(run / "run.json") | {"format": 9})
    data = next(Path().glob("data.*"))
    code, _, err = run_cli("predict", run, data)
    said = "has format 9, but this pacbayes reads 1; update pacbayes"
    assert (code, said in err.splitlines()[-1]) == (2, True)


def test_a_format_is_read_from_the_oldest_to_the_newest(tmp_path):
    path = tmp_path / "a.json"
    for found in (2, 3, None, "3", True):
        save_json(path, {"format": found})
        assert load_versioned(path, 3, 2) == {"format": found}
    for found, what in ((1, "make it again with this version"), (4, "update pacbayes")):
        save_json(path, {"format": found})
        said = f"{path} has format {found}, but this pacbayes reads 2 to 3; {what}"
        with pytest.raises(ValueError, match=re.escape(said)):
            load_versioned(path, 3, 2)


def test_a_certificate_whose_versions_are_no_texts_is_damaged(unpacked, run_cli):
    run = unpacked("certificate-4")
    for versions in ({"threads": 1.5}, 3):
        for path in run.glob("certificate*.json"):
            record = load_json(path)
            record["provenance"]["versions"] = versions
            save_json(path, record)
        code, _, err = run_cli("report", run)
        assert (code, "its versions are not texts" in err) == (2, True)
