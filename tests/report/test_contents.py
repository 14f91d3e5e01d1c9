"""The page shows what the folder contains, and refuses what is damaged."""

import re
import shutil

import pytest

from pacbayes.report import collect, report
from report.folders import KINDS


def test_every_certificate_is_found_read_and_verified(contents):
    names = ["certificate.json", "certificate-vote.json", "certificate-drawn.json"]
    assert sorted(c.file for c in contents.certificates) == sorted(names)
    for c in contents.certificates:
        assert all(finding.holds for finding in c.findings)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "store"])
def test_nothing_is_written(kind, folder_of):
    before = {path.name: path.read_bytes() for path in folder_of(kind).iterdir()}
    collect(folder_of(kind))
    assert {path.name: path.read_bytes() for path in folder_of(kind).iterdir()} == before


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("certificate.json", '{"format": 4, "bound": 0.1}', "certificate.json: predictor"),
        ("certificate.json", "[]", "certificate.json: "),
        ("history.json", "[]", "history.json has no evaluations"),
        ("history.json", "[3]", "history.json is damaged"),
    ],
)
def test_a_damaged_file_is_named_in_the_error(copied, name, content, complaint):
    (copied.folder / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        collect(copied.folder)


def test_an_untrained_run_raises_an_error(copied):
    (copied.folder / "posterior.safetensors").unlink()
    with pytest.raises(ValueError, match="not fully trained"):
        collect(copied.folder)


@pytest.mark.parametrize("content", ['{"error": 0.1}', "3", '{"error": "x", "n": null}', "["])
def test_a_damaged_test_error_of_a_model_is_named(content, folder_of, tmp_path):
    shutil.copytree(folder_of("mean"), tmp_path / "model")
    (tmp_path / "model" / "test.json").write_text(content)
    with pytest.raises(ValueError, match=r"test\.json is damaged"):
        collect(tmp_path / "model")


@pytest.mark.parametrize("kind", ["mean", "store"])
@pytest.mark.parametrize("option", ["data", "test_data"])
def test_options_of_runs_are_refused_for_other_folders(kind, option, folder_of, tmp_path):
    message = f"--{option.replace('_', '-')} has no effect on "
    with pytest.raises(ValueError, match=message):
        report(folder_of(kind), tmp_path / "page.html", **{option: tmp_path / "data.csv"})
    assert not (tmp_path / "page.html").exists()
