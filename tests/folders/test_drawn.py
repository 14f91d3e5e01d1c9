"""A drawn network and its certificate change together, wherever certify is killed."""

import contextlib
import os
from pathlib import Path

import pytest

import pacbayes.verify.networks
from pacbayes import Settings, folders
from pacbayes.choices import Predictor
from pacbayes.files import file_sha256
from pacbayes.folders.preparation import prepare
from pacbayes.verify import verify

SETTINGS = Settings.of("fast", "relu", widths=(3,), epochs=2, evaluate_every=1)


class Killed(BaseException):
    pass


@pytest.fixture
def run(tmp_path, source):
    run = prepare(tmp_path / "run", SETTINGS, source, source.load())
    for _ in folders.train_run(run, source.load()):
        pass
    return run


def certify(run, source, networks):
    asked = {"delta": 0.05, "bound": "disintegrated", "samples": None, "networks": networks}
    return folders.certify_run(run, run.load_network(), source.load(), **asked)


@pytest.mark.parametrize("call", range(1, 8))
def test_a_kill_leaves_the_old_network_or_the_new(run, source, monkeypatch, call):
    before = certify(run, source, 1)
    moved, removed, done = os.replace, Path.unlink, []

    def counted(act):
        def dying(*arguments, **given):
            done.append(act)
            if len(done) == call:
                raise Killed
            return act(*arguments, **given)

        return dying

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", counted(moved))
        patched.setattr(Path, "unlink", counted(removed))
        patched.setattr(Path, "replace", lambda a, b: os.replace(a, b))
        with contextlib.suppress(Killed):
            certify(run, source, 40)
    claim = run.certificate_path(Predictor.DRAWN)
    assert all(finding.holds for finding in verify(claim))
    assert run.load_drawn()
    after = certify(run, source, 40)
    assert after.provenance["drawn_sha256"] != before.provenance["drawn_sha256"]
    assert file_sha256(run.drawn_path) == after.provenance["drawn_sha256"]
    assert sorted(p.name for p in run.folder.glob("*drawn*")) == [
        "certificate-drawn.json",
        "drawn.safetensors",
    ]


def test_a_network_drawn_anew_during_a_check_is_no_failure(run, source, run_cli, monkeypatch):
    certify(run, source, 1)
    assert run_cli("verify", run.folder)[0] == 0
    check = pacbayes.verify.networks._sample

    def late(*given):
        certify(run, source, 40)
        return check(*given)

    monkeypatch.setattr(pacbayes.verify.networks, "_sample", late)
    for more in ([], ["--json"]):
        certify(run, source, 1)
        code, _, err = run_cli("verify", run.folder, *more)
        said = f"error: {run.folder} was written to during the check; verify it again after that"
        assert (code, err.splitlines()[-1]) == (2, said)
