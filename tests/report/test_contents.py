"""The page shows what the folder contains."""

import json
import math
import re

import pytest

from pacbayes.files import DamagedFileError
from pacbayes.report.contents import collect
from pacbayes.runs.folder import open_run


def test_every_certificate_is_found_read_and_verified(made, contents):
    names = ["certificate.json", "certificate-vote.json", "certificate-drawn.json"]
    assert [i.file for i in contents.issued] == names
    for issued in contents.issued:
        record = json.loads((made.folder / issued.file).read_text())
        assert record.pop("format") == 2
        assert issued.certificate.as_dict() == record
        assert issued.holds


def test_movements_cover_all_weights_and_the_whole_kl(contents):
    assert [m.layer for m in contents.movements] == ["layer 1", "the last layer"]
    assert [m.weights for m in contents.movements] == [4 * 4 + 4, 4 + 1]
    whole = math.fsum(m.kl for m in contents.movements)
    assert whole == pytest.approx(contents.issued[0].certificate.kl, rel=1e-6)
    for m in contents.movements:
        assert sum(m.means.counts) == sum(m.scales.counts) == m.weights
        assert m.rms <= m.largest <= m.means.high == -m.means.low
        low, middle, high = m.quantiles
        assert m.scales.low <= low <= middle <= high <= m.scales.high


def test_movements_are_in_units_of_the_prior(made, contents):
    network = made.load_network()
    g = network.layer.weight
    moved = ((g.mean - g.prior_mean) / g.prior_log_scale.exp()).detach().flatten().tolist()
    g = network.layer.bias
    moved += ((g.mean - g.prior_mean) / g.prior_log_scale.exp()).detach().flatten().tolist()
    last = contents.movements[-1]
    assert last.largest == pytest.approx(max(map(abs, moved)), rel=1e-5)
    assert last.rms == pytest.approx(math.sqrt(sum(m * m for m in moved) / len(moved)), rel=1e-5)


def test_nothing_is_written(copied):
    before = {path.name: path.read_bytes() for path in copied.folder.iterdir()}
    collect(copied)
    assert {path.name: path.read_bytes() for path in copied.folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("certificate.json", '{"format": 2, "bound": 0.1}', "certificate.json: predictor"),
        ("certificate.json", "[]", "certificate.json: "),
        ("test.json", '{"colour": "red"}', "test.json is damaged"),
        ("history.json", "[]", "history.json has no evaluations"),
        ("history.json", "[3]", "history.json is damaged"),
    ],
)
def test_what_is_damaged_is_refused_by_name(copied, name, content, complaint):
    (copied.folder / name).write_text(content)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        collect(copied)


def test_parts_that_do_not_make_the_bound_are_refused(copied):
    path = copied.folder / "certificate.json"
    record = json.loads(path.read_text())
    flattered = record["contributions"] | {"risk": record["contributions"]["risk"] / 2}
    path.write_text(json.dumps(record | {"contributions": flattered}))
    with pytest.raises(DamagedFileError, match="contributions add up to"):
        collect(copied)
    path.write_text(json.dumps(record | {"contributions": {"risk": record["bound"]}}))
    with pytest.raises(DamagedFileError, match="contributions missing or unknown: KL of"):
        collect(copied)


def test_an_untrained_run_is_refused(copied):
    (copied.folder / "posterior.safetensors").unlink()
    with pytest.raises(ValueError, match="not trained to the end"):
        collect(open_run(copied.folder))
