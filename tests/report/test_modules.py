"""Pages about convolutions and about modules of one's own."""

import shlex
import shutil
import sys

import numpy as np
import pytest

from pacbayes import cli, folders
from pacbayes.certificates.certificate import read_certificate
from pacbayes.folders.folder import Run, open_run
from pacbayes.networks.modules import Convolutions
from pacbayes.report import collect
from pacbayes.report import page as page_of
from pacbayes.report.networks import certify_command, train_command

SMALL = {"channels": (3,), "kernels": (3,), "strides": (1,)}
CODE = """from torch import nn


class Twice(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.second = nn.Linear(width, width)

    def forward(self, a):
        return a + self.second(self.norm(self.first(a)).relu())


def build(shape, outputs):
    start = nn.Linear(shape[0] * shape[1] * shape[2], 6)
    return nn.Sequential(nn.Flatten(), start, Twice(6), nn.Linear(6, outputs))
"""


def colours(folder, n=90):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    x = rng.uniform(0, 0.5, (n, 3, 4, 5)).astype(np.float32)
    x[np.arange(n), y] += 0.5
    np.savez(folder / "colours.npz", x=x, y=np.array(["red", "green", "blue"])[y])
    return folder / "colours.npz"


def made(folder, network, bounds, **changes):
    run = Run.create(folder / "run", network, colours(folder), {"batch_size": 30, **changes})
    data = run.load_data()
    for _ in folders.train_run(run, data):
        pass
    for bound in bounds:
        samples = {"samples": 2} if bound == "small-kl" else {}
        folders.certify_run(run, run.load_network(), data, delta=0.05, bound=bound, **samples)
    return run


@pytest.fixture
def conv(tmp_path):
    network = Convolutions(**SMALL, widths=(4,))
    return made(tmp_path, network, ["small-kl", "disintegrated"], epochs=2)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "my_network.py").write_text(CODE)
    network = f"{tmp_path}/my_network.py:build"
    return made(tmp_path, network, ["best-of"], prior_fraction=0.5, prior_epochs=2)


@pytest.fixture
def call(monkeypatch, capsys):
    def run(command):
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, capsys.readouterr().err

    return run


def test_a_page_about_convolutions_names_their_layers_and_shows_colours(conv, read):
    contents = collect(conv.folder)
    names = ["convolution 1", "dense layer 1", "the last layer"]
    assert [m.layer for m in contents.movements] == names
    files = [c.file for c in contents.certificates]
    assert sorted(files) == ["certificate-drawn.json", "certificate.json"]
    assert all(finding.holds for c in contents.certificates for finding in c.findings)
    page = read(page_of(contents))
    text = page.all("main")[0]["text"]
    assert all(f"learned in {name}" in text for name in names)
    assert "a vote of 10 networks" in text
    assert [e["class"] for e in page.all("img")] == ["colours"] * 12
    assert [float(e["height"]) for e in page.all("img")] == pytest.approx([112 * 4 / 5] * 12, 1e-4)


def test_a_page_about_a_module_of_ones_own_says_where_its_code_is(own, read):
    contents = collect(own.folder)
    names = ["module 1", "module 2.first", "module 2.second", "the last layer"]
    assert [m.layer for m in contents.movements] == names
    text = read(page_of(contents)).all("main")[0]["text"]
    assert "my_network.py is the file network.py in the folder" in text
    assert own.record.network.architecture.sha256 in text
    assert "The posterior was not trained: it is the prior." in text
    assert "The posterior is the prior: no layer has moved." in text


def test_the_command_of_a_module_reproduces_its_run(own, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = train_command(own.record, own.folder)
    assert "--network my_network.py:build" in command
    reproduced(command, own.folder, call, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        "--channels 3,2 --kernels 3,2 --strides 1,1 --widths 4 --padding --pooling 2 --epochs 1",
        "--prior-fraction 0.5 --prior-epochs 1 --channels 2 --pooling 0 --no-padding "
        "--no-batch-norm --prior-decay 0.1 --epochs 1 --batch-size 20",
        "--prior-fraction 0.25 --prior-epochs 1 --channels 2 --objective fix-lambda",
    ],
)
def test_the_command_of_convolutions_reproduces_their_run(options, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    call(
        f"pacbayes train --dataset {colours(tmp_path)} --network conv {options} --threads 1 "
        f"--out {folder}"
    )
    run = open_run(folder)
    reproduced(train_command(run.record, folder), folder, call, tmp_path)


def reproduced(command, folder, call, tmp_path):
    before = tmp_path / "before"
    shutil.move(folder, before)
    call(command)
    for name in ("run.json", "posterior.safetensors"):
        assert (folder / name).read_bytes() == (before / name).read_bytes()


def test_the_certify_command_of_convolutions_reproduces_their_certificate(conv, call, monkeypatch):
    path = conv.folder / "certificate.json"
    monkeypatch.chdir(conv.folder.parent)
    before = path.read_text()
    command = certify_command(read_certificate(path), conv.record, conv.folder)
    path.unlink()
    call(command)
    assert path.read_text() == before
