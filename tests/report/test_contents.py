"""The page shows what the folder contains."""

import json
import re

import pytest

from pacbayes.report.contents import collect
from pacbayes.runs.folder import open_run


def test_every_certificate_is_found_read_and_verified(made, contents):
    names = ["certificate.json", "certificate-vote.json", "certificate-drawn.json"]
    assert [i.file for i in contents.issued] == names
    for issued in contents.issued:
        record = json.loads((made.folder / issued.file).read_text())
        assert record.pop("format") == 4
        assert issued.certificate.as_dict() == record
        assert issued.holds


def test_nothing_is_written(copied):
    before = {path.name: path.read_bytes() for path in copied.folder.iterdir()}
    collect(copied)
    assert {path.name: path.read_bytes() for path in copied.folder.iterdir()} == before


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
        collect(copied)


def test_an_untrained_run_raises_an_error(copied):
    (copied.folder / "posterior.safetensors").unlink()
    with pytest.raises(ValueError, match="not fully trained"):
        collect(open_run(copied.folder))
