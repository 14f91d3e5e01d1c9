"""The commands on the page reproduce the run and its certificates."""

import json
import shlex
import shutil
import sys

import pytest
import typer

from pacbayes import cli
from pacbayes.certificates.certificate import read_certificate
from pacbayes.folders.folder import open_run
from pacbayes.report import collect
from pacbayes.report.networks import _option, certify_command, train_command
from pacbayes.settings import OPTIONS as SETTINGS
from pacbayes.settings import Settings

TRAIN = typer.main.get_command(cli.app).commands["train"]
pytestmark = pytest.mark.usefixtures("above")
OPTIONS = [
    "--activation sign --widths 5,4 --unit-scale --epochs 2 --seed 7",
    "--protocol paper --objective optim-lambda --widths 4 --lambda 99.5 --epochs 2 --delta 0.1",
    "--prior-fraction 0.5 --prior-epochs 2 --prior-scale 0.0200001234,1 --widths none --epochs 2",
    "--prior-fraction 0.25 --prior-epochs 2 --prior-scale 0.1 --objective fix-lambda --epochs 1",
]


@pytest.fixture
def above(monkeypatch, tmp_path):
    """Work above all files, since paths are seen from the working directory."""
    monkeypatch.chdir(tmp_path.anchor)


@pytest.fixture
def call(monkeypatch, capsys):
    def run(command):
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_spelled_as_train_takes_it(name):
    value = Settings.model_fields[name].default
    others = {bool: not value, int: 3, float: 0.25, tuple: (7, 5), type(None): 2}
    for given in (value, others.get(type(value), value)):
        if given is None:
            continue
        words = ["--dataset", "x", "--out", "y", *_option(name, given)]
        context = TRAIN.make_context("train", words)
        text = ",".join(map(str, given)) or "none" if isinstance(given, tuple) else str(given)
        taken = context.params[name]
        assert str(taken) == text or taken == given or not (taken or given)  # None leaves it off


@pytest.mark.parametrize("options", OPTIONS)
def test_the_train_command_reproduces_the_run(options, source, call, tmp_path):
    call(
        f"pacbayes train --dataset {source.name} --test-data {source.test} {options} "
        f"--batch-size 40 --threads 1 --out '{tmp_path}/a b'"
    )
    path = min((tmp_path / "a b").rglob("run.json"))
    run = open_run(path.parent)
    command = train_command(run.record, run.folder)
    assert "'" in command  # the folder has a space
    shutil.move(tmp_path / "a b", tmp_path / "before")
    call(command)
    before = tmp_path / "before" / path.relative_to(tmp_path / "a b")
    assert path.read_text() == before.read_text()
    assert (path.parent / "posterior.safetensors").read_bytes() == (
        before.parent / "posterior.safetensors"
    ).read_bytes()


def test_default_options_are_omitted(contents):
    options = [word for word in shlex.split(contents.again.lines[0]) if word.startswith("--")]
    assert options == [
        *("--dataset", "--test-data", "--protocol", "--activation", "--widths", "--epochs"),
        *("--batch-size", "--evaluate-every", "--threads", "--out"),
    ]


def test_the_certify_commands_reproduce_the_certificates(copied, call):
    contents = collect(copied.folder)
    files = [c.file for c in contents.certificates]
    _, *commands = contents.again.lines
    assert len(files) == len(commands) == 3
    before = {file: json.loads((copied.folder / file).read_text()) for file in files}
    for file in files:
        (copied.folder / file).unlink()
    for command in commands:
        call(command)
    for name, content in before.items():
        assert json.loads((copied.folder / name).read_text()) == content


@pytest.mark.parametrize("options", ["--bound best-of --samples 4", "--delta 0.1"])
def test_options_of_certify_are_repeated(copied, call, options):
    call(f"pacbayes certify {copied.folder} {options}")
    path = copied.folder / "certificate.json"
    before = json.loads(path.read_text())
    command = certify_command(read_certificate(path), copied.record, copied.folder)
    assert command in collect(copied.folder).again.lines
    path.unlink()
    call(command)
    assert json.loads(path.read_text()) == before


def test_an_exact_certificate_is_reproduced_as_exact(source, call, tmp_path):
    folder = tmp_path / "run"
    call(
        f"pacbayes train --dataset {source.name} --activation sign --widths 3 --epochs 2 "
        f"--out {folder}"
    )
    call(f"pacbayes certify {folder} --exact")
    assert "--exact" in collect(folder).again.lines[1]
